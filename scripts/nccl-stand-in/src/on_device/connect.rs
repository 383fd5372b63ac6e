use super::{Engine, EngineError};

pub trait Library {
    fn id(&self) -> Result<Vec<u8>, EngineError>;
    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Box<dyn Engine>, EngineError>;
}

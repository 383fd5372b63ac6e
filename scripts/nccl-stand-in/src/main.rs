//! The code that calls NCCL, against a stand-in. Around it is as much of what it uses as it needs: tensors in host memory, whose
//! addresses stand for those of a GPU.

extern crate self as burn;

mod on_device;
pub mod tensor;

fn main() {
    let scenario = std::env::args().nth(1).unwrap_or_default();
    on_device::scenarios::run(&scenario);
}

//! Everything that is checked through the public interface.

mod golden;

//! What a run is about to do, in a line.

use kvt_data::text::counted;

use super::Session;
use crate::plot::grouped;
use crate::task::Task;

impl<T: Task> Session<T> {
    /// The model with its parameters and keys, the planned training, and the device.
    #[must_use]
    pub fn describe(&self) -> String {
        let (summary, workload) = (self.model.summary(), self.workload());
        let processes = match self.world.size() {
            1 => String::new(),
            size => format!(", {size} processes"),
        };
        format!(
            "{}: {} parameters, {} keys per query, {} of {} on {} ({}){processes}",
            summary.name,
            grouped(summary.params),
            summary.kept(),
            counted(workload.epochs, "epoch"),
            counted(workload.steps_per_epoch, "step"),
            self.device.name,
            self.device.description
        )
    }
}

//! What a run is about to do, in a line.

use kvt_data::text::counted;

use super::Session;
use crate::plot::grouped;
use crate::task::{Task, summary_of};

impl<T: Task> Session<T> {
    /// The model with its parameters and keys, the planned training, and the device.
    #[must_use]
    pub fn describe(&self) -> String {
        let (summary, workload) = (summary_of(&self.plan, &self.model), self.workload());
        let processes = match self.world.size() {
            1 => String::new(),
            size => format!(", {size} processes"),
        };
        let steps = counted(workload.steps_per_epoch, "step");
        let length = match self.plan.updates() {
            None => format!("{} of {steps}", self.plan.length()),
            Some(_) => format!("{}, {steps} per epoch", self.plan.length()),
        };
        format!(
            "{}: {} parameters, {} keys per query, {length} on {} ({}){processes}",
            summary.name,
            grouped(T::parameters(&self.model, &self.state.network)),
            summary.kept(),
            self.device.name,
            self.device.description
        )
    }
}

//! Writes the files that record a run, as one listener: log, tables of epochs and of layers, TensorBoard.

use std::collections::BTreeMap;
use std::io::Write as _;

use kvt_data::fs::{free_path, write_atomic};
use kvt_data::regular;

use crate::run::{
    Event, JsonlLog, Listener, Log, Metric, RunDir, RunError, StepRecord, Tables, TensorBoard,
    read_log,
};

/// Writes every event to the run's folder and passes it on.
pub struct Recorder<'a> {
    files: Option<Files>,
    next: &'a mut dyn Listener,
}

struct Files {
    /// Checked before each write.
    run: RunDir,
    log: JsonlLog,
    /// What is made of the log, and can be made of it again.
    others: Vec<Box<dyn Listener>>,
}

impl<'a> Recorder<'a> {
    /// Opens the files of a run. `resumed` holds the length of the log in bytes and the number of steps at the checkpoint (both 0
    /// for a run that starts over): later log entries are cut off, as those steps will happen again. `metrics` are the columns of
    /// the table of epochs; TensorBoard, if used, gets the hyper-parameters.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn open(
        run: &RunDir,
        resumed: Option<(u64, u64)>,
        tensorboard: Option<&BTreeMap<String, toml::Value>>,
        metrics: &'static [Metric],
        next: &'a mut dyn Listener,
    ) -> Result<(Self, Vec<String>), RunError> {
        run.check()?;
        let (offset, step) = resumed.unwrap_or_default();
        let (log, torn) = JsonlLog::resume(&run.log(), offset, step)?;
        let Log { events, warning } = read_log(&run.log())?;
        let mut warnings: Vec<String> = torn.into_iter().chain(warning).collect();
        // When the log has lost lines, the table is the only record of these epochs.
        let lacks_lines = !warnings.is_empty();
        let table = lacks_lines.then(|| regular::read(&run.epochs_csv()).ok());
        let tables = Tables::new(run, metrics, &events)?;
        let mut others: Vec<Box<dyn Listener>> = vec![Box::new(tables)];
        if let Some(parameters) = tensorboard {
            let step = resumed.map(|(_, step)| step);
            let board = TensorBoard::new(&run.tensorboard(), step, &events, parameters)?;
            others.push(Box::new(board));
        }
        if let Some(earlier) = table.flatten()
            && earlier != regular::read(&run.epochs_csv())?
        {
            let path = run.epochs_csv();
            let kept = free_path(&path);
            write_atomic(&kept, |file| file.write_all(&earlier))?;
            warnings.push(format!(
                "`{}` was written again from a log that has lost lines: the earlier table is kept as `{}`",
                path.display(),
                kept.display()
            ));
        }
        let run = run.clone();
        let files = Some(Files { run, log, others });
        Ok((Self { files, next }, warnings))
    }

    /// Passes events on and writes nothing: for processes of a job other than the first.
    pub fn without_files(next: &'a mut dyn Listener) -> Self {
        Self { files: None, next }
    }

    /// Bytes in the log, which a checkpoint remembers.
    pub fn log_offset(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.log.offset())
    }
}

impl Files {
    fn record(&mut self, event: &Event) -> Result<(), RunError> {
        self.run.check()?;
        self.log.event(event)?;
        let mut others = self.others.iter_mut();
        others.try_for_each(|other| other.event(event))
    }
}

impl Listener for Recorder<'_> {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if let Some(files) = &mut self.files {
            files
                .record(event)
                .map_err(|error| files.run.cause(error))?;
        }
        self.next.event(event)
    }

    fn progress(&mut self, update: &StepRecord) {
        self.next.progress(update);
    }

    fn sync(&mut self) -> Result<(), RunError> {
        if let Some(files) = &mut self.files {
            files.log.sync()?;
        }
        self.next.sync()
    }
}

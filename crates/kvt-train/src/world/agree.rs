//! An error in one process ends the job in all of them, with the same message.

use serde::{Deserialize, Serialize};

use super::World;
use crate::error::{TrainError, chain};

/// An error known to all processes of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The message of the first process that failed.
    pub message: String,
    /// Whether weights, moments and position are those after the last update.
    pub(crate) whole: bool,
}

impl Failure {
    /// An error that all processes reach independently, from the same numbers.
    pub(crate) fn common(error: &TrainError) -> Self {
        Self {
            message: chain(error),
            whole: error.leaves_the_state_whole(),
        }
    }
}

/// A result that is `Ok` only if it is `Ok` in all processes: the first error, in order of rank, becomes the error of all. All
/// processes must call it.
///
/// # Errors
/// [`TrainError::Job`] if a process failed, unless its error is already known to all; in a single process its own error.
pub fn agree<T>(world: &dyn World, own: Result<T, TrainError>) -> Result<T, TrainError> {
    if world.is_alone() {
        return own;
    }
    let failure = own.as_ref().err().map(|error| told(world, error));
    let first = world.collect(failure.as_slice())?.into_iter().next();
    match (first, own) {
        (None, own) => own,
        (Some(_), Err(error)) if error.is_known_to_all() => Err(error),
        (Some(first), _) => Err(TrainError::Job(first)),
    }
}

/// What a process tells the others of its error.
fn told(world: &dyn World, error: &TrainError) -> Failure {
    let mut failure = match error {
        // Agreed on before.
        TrainError::Job(failure) => return failure.clone(),
        error => Failure::common(error),
    };
    // As in a single process: the first process needs no prefix.
    if !world.is_first() {
        let (rank, size) = (world.rank(), world.size());
        failure.message = format!("process {rank} of {size}: {}", failure.message);
    }
    failure
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::world::threads;

    #[test]
    fn the_first_that_fails_speaks_for_all() {
        let results = threads(4, |world| {
            let own = match world.rank() {
                2 => Err(TrainError::NothingEvaluated),
                3 => Err(TrainError::Execution("lost".to_owned())),
                _ => Ok(()),
            };
            agree(&*world, own)
        });
        for result in results {
            let TrainError::Job(failure) = result.unwrap_err() else {
                unreachable!("nobody knows of it before");
            };
            let expected = format!("process 2 of 4: {}", TrainError::NothingEvaluated);
            assert_eq!(failure.message, expected);
            assert!(failure.whole);
        }
    }

    #[test]
    fn what_is_good_everywhere_is_kept() {
        let results = threads(3, |world| agree(&*world, Ok(world.rank())));
        let results: Vec<usize> = results.into_iter().map(Result::unwrap).collect();
        assert_eq!(results, [0, 1, 2]);
    }

    /// An error that was agreed on does not change when agreed on again.
    #[test]
    fn an_error_is_agreed_on_once() {
        let results = threads(2, |world| {
            let own = match world.rank() {
                1 => Err(TrainError::Execution("lost".to_owned())),
                _ => Ok(()),
            };
            let once = agree(&*world, own);
            agree(&*world, once)
        });
        for result in results {
            let text = result.unwrap_err().to_string();
            assert_eq!(text.matches("process 1 of 2").count(), 1, "{text}");
        }
    }
}

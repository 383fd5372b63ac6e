//! The mean of the weights of several files, as timm's `avg_checkpoints.py` computes it: of the last checkpoints of a run, or of
//! runs that start from the same weights (Wortsman et al., [Model soups](https://arxiv.org/abs/2203.05482)).

use std::path::{Path, PathBuf};

use burn::tensor::TensorData;
use kvt_models::weights::{self, StateDict, WeightsError};

/// Why weights cannot be averaged.
#[derive(Debug, thiserror::Error)]
pub enum AverageError {
    /// A file cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// There are no files.
    #[error("no files to average")]
    Nothing,
    /// A tensor is missing from one of the files, or has another shape there.
    #[error(
        "`{}` and `{}` have different weights: `{name}` is {of_first} in the first and {of_other} in the other; average checkpoints of \
         one model",
        .first.display(), .other.display()
    )]
    Differ {
        /// The first file.
        first: PathBuf,
        /// The file that differs.
        other: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape in the first file, in words.
        of_first: String,
        /// Its shape in the other.
        of_other: String,
    },
}

/// The element-wise mean of the weights in these files, summed in f64. Integer tensors, such as counters, are taken from the last file.
///
/// # Errors
/// If a file cannot be read, or the files differ in names or shapes.
pub fn average(files: &[PathBuf]) -> Result<StateDict, AverageError> {
    let (first, others) = files.split_first().ok_or(AverageError::Nothing)?;
    let mut last = weights::read(first)?;
    let shapes = shapes(&last);
    let sum =
        |(_, data): (&str, &TensorData)| -> Option<Vec<f64>> { Some(numbers(data)?.collect()) };
    let mut sums: Vec<_> = last.iter().map(sum).collect();
    for other in others {
        let weights = weights::read(other)?;
        check(first, &shapes, other, &self::shapes(&weights))?;
        for (sum, (_, data)) in sums.iter_mut().zip(weights.iter()) {
            let (Some(sum), Some(row)) = (sum, numbers(data)) else {
                continue;
            };
            for (sum, number) in sum.iter_mut().zip(row) {
                *sum += number;
            }
        }
        last = weights;
    }
    let count = files.len() as f64;
    let averaged = last.into_iter().zip(sums).map(|((name, data), sum)| {
        let mean = sum.map(|sum| {
            let mean: Vec<f32> = sum.into_iter().map(|sum| (sum / count) as f32).collect();
            TensorData::new(mean, data.shape().to_vec())
        });
        (name, mean.unwrap_or(data))
    });
    Ok(averaged.collect())
}

/// The values of a tensor in f32, as all files are read; `None` for an integer tensor.
fn numbers(data: &TensorData) -> Option<impl Iterator<Item = f64>> {
    let is_float = data.dtype().is_float();
    is_float.then(|| data.iter::<f32>().map(f64::from))
}

/// Names and shapes in words, by name, with a mark for integer tensors.
fn shapes(weights: &StateDict) -> Vec<(String, String)> {
    let shape = |(name, data): (&str, &TensorData)| {
        let whole = if data.dtype().is_float() {
            ""
        } else {
            " of whole numbers"
        };
        let shape = data.shape().to_vec();
        (name.to_owned(), format!("{shape:?}{whole}"))
    };
    weights.iter().map(shape).collect()
}

/// Refuses weights of another model than the first file's.
fn check(
    first: &Path,
    expected: &[(String, String)],
    other: &Path,
    found: &[(String, String)],
) -> Result<(), AverageError> {
    let of = |shapes: &[(String, String)], name: &str| {
        let shape = shapes.iter().find(|(known, _)| known == name);
        shape.map_or_else(|| "missing".to_owned(), |(_, shape)| shape.clone())
    };
    let mut names = expected.iter().chain(found).map(|(name, _)| name);
    match names.find(|name| of(expected, name) != of(found, name)) {
        None => Ok(()),
        Some(name) => Err(AverageError::Differ {
            first: first.to_owned(),
            other: other.to_owned(),
            name: name.clone(),
            of_first: of(expected, name),
            of_other: of(found, name),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn file(folder: &Path, name: &str, tensors: &[(&str, &[f32])]) -> PathBuf {
        let path = folder.join(name).with_extension("safetensors");
        let tensors = tensors.iter().map(|(name, numbers)| {
            let data = TensorData::new(numbers.to_vec(), [numbers.len()]);
            ((*name).to_owned(), data)
        });
        weights::write(&path, &tensors.collect(), &Default::default()).unwrap();
        path
    }

    #[test]
    fn the_mean_by_hand() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name, a: &[f32], b: &[f32]| file(folder.path(), name, &[("a", a), ("b", b)]);
        let files = [
            file("one", &[1.0, 2.0], &[1e8]),
            file("two", &[3.0, -2.0], &[1.0]),
            file("three", &[5.0, 3.0], &[-1e8]),
        ];
        let mean = average(&files).unwrap();
        let of = |name| mean.get(name).unwrap().try_to_vec::<f32>().unwrap();
        assert_eq!(of("a"), [3.0, 1.0]);
        // f32 would lose the 1 beside 1e8.
        assert_eq!(of("b"), [1.0 / 3.0]);
        // The mean of a file with itself is the file.
        let same = average(&[files[0].clone(), files[0].clone()]).unwrap();
        assert_eq!(same, weights::read(&files[0]).unwrap());
    }

    #[test]
    fn other_weights_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name, tensors: &[(&str, &[f32])]| file(folder.path(), name, tensors);
        let one = file("one", &[("a", &[1.0]), ("b", &[1.0])]);
        let error = |other: &PathBuf| {
            let error = average(&[one.clone(), other.clone()]).unwrap_err();
            error.to_string()
        };
        let other = error(&file("two", &[("a", &[1.0]), ("b", &[1.0, 2.0])]));
        assert!(other.contains("`b` is [1] in the first and [2]"), "{other}");
        let other = error(&file("three", &[("a", &[1.0])]));
        assert!(other.contains("and missing in the other"), "{other}");
        let other = error(&file(
            "four",
            &[("a", &[1.0]), ("b", &[1.0]), ("c", &[1.0])],
        ));
        assert!(other.contains("`c` is missing in the first"), "{other}");
        // Integers and floats cannot be averaged.
        let counter = TensorData::new(vec![1i64], [1]);
        let tensors = [("a".to_owned(), counter.clone()), ("b".to_owned(), counter)];
        let path = folder.path().join("five.safetensors");
        weights::write(&path, &tensors.into_iter().collect(), &Default::default()).unwrap();
        let other = error(&path);
        assert!(
            other.contains("[1] of whole numbers in the other"),
            "{other}"
        );
        assert!(matches!(average(&[]), Err(AverageError::Nothing)));
    }
}

//! The names of classes: in a text, and those of a source beside others that it must have.

mod error;

use std::collections::{HashMap, HashSet};
use std::io;

pub use self::error::ClassError;
use super::Source;
use crate::text::{LARGEST_LIST, read_text};
use crate::{ClassNames, DataConfig, DataError};

pub(super) fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|class| class.to_string()).collect()
}

/// The classes of `data.classes`, if it is there.
pub(super) fn listed(data: &DataConfig) -> Result<Option<Vec<String>>, DataError> {
    Ok(match &data.classes {
        Some(ClassNames::File(file)) => {
            let path = data.path.join(file);
            match read_text(&path, LARGEST_LIST) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(ClassError::NoList(path).into());
                }
                text => Some(names(&text?)),
            }
        }
        Some(ClassNames::Count(count)) => Some(numbers(*count)),
        None => None,
    })
}

/// The classes in a text: one on each line, or the column `Name` of a table with tabs, as ADE20K has it.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    let is_name = |cell: &str| cell.trim().eq_ignore_ascii_case("name");
    let head = lines.peek().copied().unwrap_or_default();
    let column = match head.split('\t').position(is_name) {
        Some(column) if head.contains('\t') => column,
        _ => return lines.map(|line| line.trim().to_owned()).collect(),
    };
    let cell = |line: &str| {
        line.split('\t')
            .nth(column)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    lines.skip(1).map(cell).collect()
}

impl Source {
    /// These images with the labels of a list, which must contain the same names in any order; without one, as they are.
    pub(super) fn relabelled(mut self, classes: Option<&[String]>) -> Result<Self, DataError> {
        let Some(classes) = classes else {
            return Ok(self);
        };
        let mut numbers = HashMap::new();
        for (number, class) in classes.iter().enumerate() {
            if numbers.insert(class, number).is_some() {
                let (path, class) = (self.root, class.clone());
                return Err(ClassError::TwoClasses { path, class }.into());
            }
        }
        let number = |name: &String| numbers.get(name).copied();
        let labels: Option<Vec<usize>> = self.classes.iter().map(number).collect();
        match labels {
            Some(labels) if self.classes.len() == classes.len() => {
                for sample in &mut self.samples {
                    let new = labels.get(sample.label as usize);
                    sample.label = new.map_or(sample.label, |&new| new as u32);
                }
                self.classes = classes.to_vec();
                Ok(self)
            }
            _ => Err(self.other_classes(&self.classes, classes)),
        }
    }

    /// The error that the classes of this source, `found`, are not those `expected`.
    pub(super) fn other_classes(&self, found: &[String], expected: &[String]) -> DataError {
        ClassError::ClassesDiffer {
            missing: without(expected, found),
            extra: without(found, expected),
            // The splits may be in the same folder.
            path: match self.tables.first() {
                Some(table) => table.path.clone(),
                None => self.root.clone(),
            },
        }
        .into()
    }

    /// The same if its classes are these in this order, where they are given: labels are places in the list.
    pub(super) fn with_classes(self, classes: Option<&[String]>) -> Result<Self, DataError> {
        let Some(classes) = classes.filter(|classes| *classes != self.classes) else {
            return Ok(self);
        };
        if without(classes, &self.classes).is_empty() && without(&self.classes, classes).is_empty()
        {
            let reason = "its classes are in another order than those of the run";
            return Err(DataError::records(self.root, reason));
        }
        Err(self.other_classes(&self.classes, classes))
    }
}

/// The names of one list that are missing from another one, in order.
pub(super) fn without(names: &[String], others: &[String]) -> Vec<String> {
    let others: HashSet<&String> = others.iter().collect();
    let missing = names.iter().filter(|name| !others.contains(name));
    missing.cloned().collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::source::tests::source;

    /// So many that comparing each with each takes minutes.
    #[test]
    fn classes_are_found_by_their_names() {
        let names: Vec<String> = (0..200_000).map(|class| class.to_string()).collect();
        let turned: Vec<String> = names.iter().rev().cloned().collect();
        let few = source(&[], &[0, 7, 199_999]).unwrap();
        let all = Source {
            classes: names.clone(),
            ..few
        };
        let found = all.clone().relabelled(Some(&turned)).unwrap();
        let labels: Vec<u32> = found.samples.iter().map(|sample| sample.label).collect();
        assert_eq!(
            (labels, &found.classes),
            (vec![199_999, 199_992, 0], &turned)
        );
        let others: Vec<String> = names.iter().map(|name| format!("{name}0")).collect();
        match all.relabelled(Some(&others)) {
            // Those that end in a zero are among the others.
            Err(DataError::Classes(ClassError::ClassesDiffer { missing, extra, .. })) => {
                assert_eq!((missing.len(), extra.len()), (180_001, 180_001));
            }
            other => unreachable!("{other:?}"),
        }
    }
}

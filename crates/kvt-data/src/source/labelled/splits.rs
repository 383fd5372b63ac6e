//! Which splits the rows of a table are of.

use std::collections::BTreeSet;

use super::Table;
use crate::source::names::{TEST, usual};
use crate::source::splits::{Split, SplitError, usual_name};
use crate::text::quoted;
use crate::{DataConfig, DataError};

impl<'a> Table<'a> {
    /// The split of each row.
    fn splits(&self) -> impl Iterator<Item = &String> {
        self.labels.rows.iter().map(|row| &row.split)
    }

    fn has(&self, split: &str) -> bool {
        self.splits().any(|found| found == split)
    }

    /// The split of test images, if there is one.
    pub(super) fn test(&self) -> Option<&'static str> {
        TEST.into_iter().find(|test| self.has(test))
    }

    /// The name of a split, as the rows have it.
    pub(super) fn found<'s>(&self, split: &'s str) -> Option<&'s str> {
        usual_name(split, |name| self.has(name))
    }

    /// The name of the training or the validation split, as the rows have it.
    pub(super) fn name(&self, part: Split) -> Result<&'a str, DataError> {
        let asked = part.asked(self.data);
        if let Some(found) = self.found(asked) {
            return Ok(found);
        }
        if let (Split::Val, Some(test)) = (part, self.test()) {
            let path = self.labels.path.clone();
            return Err(SplitError::OnlyTest { path, test }.into());
        }
        let there: BTreeSet<&String> = self.splits().filter(|name| !name.is_empty()).collect();
        let there: Vec<String> = there.into_iter().cloned().collect();
        let place = if self.labels.has_splits {
            "the column `split` has".to_owned()
        } else {
            format!(
                "without a column `split` it is the first folder in `{}`, where there are",
                self.data.path.display()
            )
        };
        Err(self.error(format!(
            "no row is of the split `{asked}`: {place} {}; set `data.val_fraction`, such as 0.2, to validate on a share of each class",
            quoted(&there)
        )))
    }

    /// Rejects rows of several splits where a share of all is to validate.
    pub(super) fn refuse_splits(&self) -> Result<(), DataError> {
        let DataConfig { train, val, .. } = self.data;
        let mut names: BTreeSet<&str> = usual().collect();
        names.extend([train.as_str(), val.as_str()]);
        if self.labels.has_splits {
            // In a column every name is a split's, and none of its rows may be trained on by mistake.
            names.extend(self.splits().map(String::as_str));
        }
        let there = names.into_iter().filter(|name| self.has(name));
        let splits: Vec<String> = there.map(str::to_owned).collect();
        if splits.len() < 2 {
            return Ok(());
        }
        let path = self.labels.path.clone();
        Err(SplitError::AlreadySplit { path, splits }.into())
    }

    /// The splits of the rows that are never read, by row.
    pub(super) fn unread_splits(&self) -> Vec<&String> {
        if self.data.val_fraction > 0.0 {
            return Vec::new();
        }
        let used = [&self.data.train, &self.data.val].map(|asked| self.found(asked));
        let is_read = |split: &str| used.contains(&Some(split)) || TEST.contains(&split);
        self.splits().filter(|split| !is_read(split)).collect()
    }
}

//! The classes of a table's labels.

use std::collections::BTreeSet;

use super::Table;
use crate::source::classes::{listed, without};
use crate::text::{is_handed_over, quoted};
use crate::{ClassNames, DataError};

impl Table<'_> {
    /// The classes: these, those of `data.classes`, or the labels of these splits, or of all rows, in order.
    pub(super) fn classes(
        &self,
        known: Option<&[String]>,
        splits: &[&str],
    ) -> Result<Vec<String>, DataError> {
        if let Some(known) = known {
            self.refuse_others(known)?;
            return Ok(known.to_vec());
        }
        if let Some(own) = listed(self.data)? {
            return Ok(own);
        }
        let mut classes = self.labels_in(splits);
        self.data.class_order.sort(&mut classes);
        // With one label for each image, the row without it is named later, and so is one whose labels are bad.
        let mut all = self.labels.rows.iter().map(|row| self.labels_of(row));
        if classes.is_empty() && self.data.label_sets && all.all(|labels| labels.is_ok()) {
            return Err(self.error(
                "no image of the splits has a label: expected names such as `cat|dog` in the column `label`",
            ));
        }
        Ok(classes)
    }

    /// The labels that the rows of these splits have, or all rows, and those that have a column.
    fn labels_in(&self, splits: &[&str]) -> Vec<String> {
        let rows = self.labels.rows.iter();
        let rows = rows.filter(|row| splits.is_empty() || splits.contains(&row.split.as_str()));
        // A row whose labels are bad is named later, and so is one without a label.
        let labels = rows.flat_map(|row| self.labels_of(row).unwrap_or_default());
        let labels = labels.filter(|label| !label.is_empty());
        let columns = self.labels.classes.iter().map(String::as_str);
        let all: BTreeSet<&str> = labels.chain(columns).collect();
        all.into_iter().map(str::to_owned).collect()
    }

    /// Rejects `data.classes`, or without it columns, of other classes than a run's. Their order does not matter, since labels are names.
    /// A list that a shell handed over is not read, since the run has emptied it, and one that is gone is not missed.
    fn refuse_others(&self, known: &[String]) -> Result<(), DataError> {
        if let Some(ClassNames::File(file)) = &self.data.classes {
            let file = self.data.path.join(file);
            if is_handed_over(&file) || !file.exists() {
                return Ok(());
            }
        }
        let (what, own) = match listed(self.data)? {
            Some(own) => ("`data.classes`", own),
            None if self.labels.classes.is_empty() => return Ok(()),
            None => ("the columns", self.labels.classes.clone()),
        };
        let [missing, new] = [without(known, &own), without(&own, known)];
        if missing.is_empty() && new.is_empty() {
            return Ok(());
        }
        Err(self.error(format!(
            "the classes of {what} are not those of the run (missing: {}; new: {}): name those that it was trained with",
            quoted(&missing),
            quoted(&new)
        )))
    }
}

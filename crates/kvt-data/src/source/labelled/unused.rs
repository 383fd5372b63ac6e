//! Warnings about what is beside the rows of a table that are read.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use super::Table;
use crate::listing::{self, Files, OtherFormats};
use crate::source::labels::whole;
use crate::text::{counted, quoted};

impl Table<'_> {
    /// Warnings about images that no row names, columns, and rows of other splits; and pictures of other formats.
    pub(super) fn unused(&self) -> (Vec<String>, OtherFormats) {
        let Files { images, others, .. } = listing::images(&self.data.path);
        let notes = [
            self.unnamed(&images),
            self.unread_columns(),
            self.unread_rows(),
        ];
        (notes.into_iter().flatten().collect(), others)
    }

    fn unnamed(&self, images: &[PathBuf]) -> Option<String> {
        let rows = self.labels.rows.iter();
        let named: HashSet<PathBuf> = rows.map(|row| whole(&row.path)).collect();
        let mut unnamed = images.iter().filter(|path| !named.contains(&whole(path)));
        let first = unnamed.next()?;
        Some(format!(
            "no row of `{}` names {} in `{}`, such as `{}`: not used",
            self.labels.path.display(),
            counted(1 + unnamed.count(), "image"),
            self.data.path.display(),
            first.display()
        ))
    }

    fn unread_columns(&self) -> Option<String> {
        // Programs that write the numbers of rows give theirs no name.
        let names = self.labels.unread.iter().cloned();
        let (nameless, names): (Vec<String>, Vec<String>) = names.partition(String::is_empty);
        let columns = match (nameless.len(), names.as_slice()) {
            (0, []) => return None,
            (0, names) => quoted(names),
            (count, []) => format!("{count} without a name"),
            (count, names) => format!("{} and {count} without a name", quoted(names)),
        };
        let table = self.labels.path.display();
        Some(format!("columns of `{table}` that are not read: {columns}"))
    }

    fn unread_rows(&self) -> Option<String> {
        let rows = self.unread_splits();
        let splits: BTreeSet<&String> = rows.iter().copied().collect();
        let splits: Vec<String> = splits.into_iter().cloned().collect();
        (!rows.is_empty()).then(|| {
            format!(
                "{} of `{}` with a split that is not read: {}",
                counted(rows.len(), "row"),
                self.labels.path.display(),
                quoted(&splits)
            )
        })
    }
}

//! Images whose labels are in a table, `data.labels`, beside their folder: one for each, or any number.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::classes::{listed, without};
use super::label_sets::{labels_in, numbers_of};
use super::labels::{Labels, Row, whole};
use super::names::{TEST, usual};
use super::splits::{Split, SplitError, usual_name};
use super::{Place, Sample, Source, share};
use crate::listing::{self, Files};
use crate::text::{counted, is_handed_over, quoted};
use crate::{ClassNames, DataConfig, DataError, OnError};

/// Missing files in a message.
const FIRST: usize = 5;

/// A table of labels. Without a column of its own, the split of a row is the first folder below that of the data.
struct Table<'a> {
    data: &'a DataConfig,
    labels: Labels,
}

/// The training and validation images, as [`open`](crate::open).
pub(super) fn open(
    data: &DataConfig,
    classes: Option<&[String]>,
) -> Result<[Source; 2], DataError> {
    let table = Table::read(data)?;
    let [mut train, val] = if data.val_fraction > 0.0 {
        table.refuse_splits()?;
        let whole = table.source(None, &table.classes(classes, &[])?, data.on_error)?;
        share::split(&whole, data.val_fraction)
    } else {
        let [train, val] = [table.name(Split::Train)?, table.name(Split::Val)?];
        let classes = table.classes(classes, &[train, val])?;
        let of = |split| table.source(Some(split), &classes, data.on_error);
        [of(train)?, of(val)?]
    };
    let counts = train.class_counts().into_iter().zip(&train.classes);
    let empty: Vec<String> = counts
        .filter(|(count, _)| *count == 0)
        .map(|(_, class)| class.clone())
        .collect();
    // Of several labels, classes without images are a warning.
    if !empty.is_empty() && !data.label_sets {
        let reason = format!("no training image is of the class {}", quoted(&empty));
        return Err(table.error(reason));
    }
    (train.notes, train.others) = table.unused();
    Ok([train, val])
}

/// Whether a table of labels, `data.labels`, says which images train and which validate, by its rows or by their folders.
///
/// # Errors
/// If the table cannot be read.
pub fn has_splits(data: &DataConfig) -> Result<bool, DataError> {
    let table = Table::read(data)?;
    let mut both = [&data.train, &data.val].into_iter();
    Ok(both.all(|split| table.found(split).is_some()))
}

/// A split by its name, as [`open_split`](crate::open_split).
pub(super) fn open_split(
    data: &DataConfig,
    split: &str,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let table = Table::read(data)?;
    let split = table.found(split).unwrap_or(split);
    let classes = table.classes(classes, &[split])?;
    table.source(Some(split), &classes, data.on_error)
}

/// The splits `data.train`, `data.val` and that of test images, or all images with `data.val_fraction`, by their names, for a check:
/// missing images are no error.
pub(crate) fn surveys(data: &DataConfig) -> Result<Vec<(String, Source)>, DataError> {
    let table = Table::read(data)?;
    let mut splits = Vec::new();
    if data.val_fraction > 0.0 {
        table.refuse_splits()?;
    } else {
        splits = vec![table.name(Split::Train)?, table.name(Split::Val)?];
        let test = TEST.into_iter().find(|test| table.has(test));
        splits.extend(test.filter(|test| !splits.contains(test)));
    }
    let classes = table.classes(None, &splits)?;
    let of = |name: String, split| {
        let source = table.source(split, &classes, OnError::Skip)?;
        Ok::<_, DataError>((name, source))
    };
    let mut surveys = if splits.is_empty() {
        vec![of(data.path.display().to_string(), None)?]
    } else {
        let each = splits
            .iter()
            .map(|split| of((*split).to_owned(), Some(*split)));
        each.collect::<Result<_, _>>()?
    };
    if let Some((_, first)) = surveys.first_mut() {
        (first.notes, first.others) = table.unused();
    }
    Ok(surveys)
}

impl<'a> Table<'a> {
    fn read(data: &'a DataConfig) -> Result<Self, DataError> {
        let mut labels = Labels::read(&data.path.join(&data.labels), data.label_sets)?;
        if !labels.has_splits {
            let root = whole(&data.path);
            for row in &mut labels.rows {
                let path = whole(&row.path);
                let folder = path.strip_prefix(&root).ok().and_then(Path::parent);
                let first = folder.and_then(|folder| folder.iter().next());
                row.split = first.unwrap_or_default().to_string_lossy().into_owned();
            }
        }
        Ok(Self { data, labels })
    }

    /// The split of each row.
    fn splits(&self) -> impl Iterator<Item = &String> {
        self.labels.rows.iter().map(|row| &row.split)
    }

    /// The labels of a row: one, or any number.
    fn labels_of<'r>(&self, row: &'r Row) -> Result<Vec<&'r str>, String> {
        if self.data.label_sets {
            labels_in(&row.label)
        } else {
            Ok(vec![row.label.as_str()])
        }
    }

    fn error(&self, reason: String) -> DataError {
        DataError::records(&self.labels.path, reason)
    }

    fn has(&self, split: &str) -> bool {
        self.splits().any(|found| found == split)
    }

    /// The name of a split, as the rows have it.
    fn found<'s>(&self, split: &'s str) -> Option<&'s str> {
        usual_name(split, |name| self.has(name))
    }

    fn name(&self, part: Split) -> Result<&'a str, DataError> {
        let asked = part.asked(self.data);
        if let Some(found) = self.found(asked) {
            return Ok(found);
        }
        if let (Split::Val, Some(test)) = (part, TEST.into_iter().find(|test| self.has(test))) {
            let path = self.labels.path.clone();
            return Err(SplitError::OnlyTest { path, test }.into());
        }
        let found: BTreeSet<&String> = self.splits().filter(|name| !name.is_empty()).collect();
        let found: Vec<String> = found.into_iter().cloned().collect();
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
            quoted(&found)
        )))
    }

    /// Rejects rows of several splits where a share of all is to validate.
    fn refuse_splits(&self) -> Result<(), DataError> {
        let own = [self.data.train.as_str(), self.data.val.as_str()];
        let mut names: BTreeSet<&str> = usual().collect();
        names.extend(own);
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

    /// The classes: these, those of `data.classes`, or the labels of these splits, or of all rows, in order.
    fn classes(&self, known: Option<&[String]>, splits: &[&str]) -> Result<Vec<String>, DataError> {
        if let Some(known) = known {
            self.refuse_others(known)?;
            return Ok(known.to_vec());
        }
        if let Some(own) = listed(self.data)? {
            return Ok(own);
        }
        let is_of = |row: &&Row| splits.is_empty() || splits.contains(&row.split.as_str());
        let rows = self.labels.rows.iter().filter(is_of);
        // A row whose labels are bad is named later.
        let labels = rows.flat_map(|row| self.labels_of(row).unwrap_or_default());
        let columns = self.labels.classes.iter().map(String::as_str);
        let classes: BTreeSet<&str> = labels.chain(columns).collect();
        let mut classes: Vec<String> = classes.into_iter().map(str::to_owned).collect();
        // The row without one is named later.
        classes.retain(|class| !class.is_empty());
        self.data.class_order.sort(&mut classes);
        // With one label for each image, the row without it is named later, and so is one whose labels are bad.
        let mut all = self.labels.rows.iter().map(|row| self.labels_of(row));
        if classes.is_empty() && self.data.label_sets && all.all(|labels| labels.is_ok()) {
            let reason = "no image of the splits has a label: expected names such as `cat|dog` in the column `label`";
            return Err(self.error(reason.to_owned()));
        }
        Ok(classes)
    }

    /// Rejects `data.classes`, or without it columns, of other classes than a run's. Their order does not matter, since labels are names.
    /// A list that a shell handed over is not read, since
    /// the run has emptied it, and one that is gone is not missed.
    fn refuse_others(&self, known: &[String]) -> Result<(), DataError> {
        let (what, own) = match &self.data.classes {
            Some(ClassNames::File(file))
                if is_handed_over(&self.data.path.join(file))
                    || !self.data.path.join(file).exists() =>
            {
                return Ok(());
            }
            Some(_) => ("`data.classes`", listed(self.data)?.unwrap_or_default()),
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

    /// The images of a split, or all, by their paths: the order of the rows does not matter.
    fn source(
        &self,
        split: Option<&str>,
        classes: &[String],
        on_error: OnError,
    ) -> Result<Source, DataError> {
        let numbers: HashMap<&str, u32> = classes.iter().map(String::as_str).zip(0..).collect();
        let is_of = |row: &&Row| split.is_none_or(|split| split == row.split);
        let mut rows: Vec<&Row> = self.labels.rows.iter().filter(is_of).collect();
        if on_error == OnError::Fail {
            self.refuse_missing(&rows)?;
        }
        rows.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        let (mut samples, mut sets) = (Vec::new(), Vec::new());
        for row in rows {
            let labels = self.label_numbers(row, &numbers, classes);
            let labels = labels.map_err(|fault| self.labels.error(row, fault))?;
            samples.push(Sample {
                path: row.path.clone(),
                label: labels.first().copied().unwrap_or(0),
                place: Place::File,
            });
            sets.push(labels);
        }
        let mut source = Source::new(self.labels.folder.clone(), classes.to_vec(), samples)?;
        if self.data.label_sets {
            source = source.with_label_sets(sets);
        }
        if source.samples.is_empty() {
            return Err(DataError::NoImages {
                path: self.labels.path.clone(),
                split: split.map(str::to_owned),
            });
        }
        Ok(source)
    }

    /// The labels of a row as numbers, or why its image cannot be used.
    fn label_numbers(
        &self,
        row: &Row,
        numbers: &HashMap<&str, u32>,
        classes: &[String],
    ) -> Result<Vec<u32>, String> {
        if let Some(ending) = listing::other_format(&row.path) {
            let name = &row.name;
            return Err(format!(
                "`{name}`: .{ending} pictures are not read; convert it to JPEG or PNG"
            ));
        }
        // A name without an ending may be a picture's: only its content says so.
        if row.path.extension().is_some() && !listing::is_image(&row.path) {
            return Err(format!(
                "`{}` is no picture by its name: expected .jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff or .gif",
                row.name
            ));
        }
        if row.label.is_empty() && !self.data.label_sets {
            return Err("the column `label` is empty".to_owned());
        }
        numbers_of(&self.labels_of(row)?, numbers, classes)
    }

    /// Rejects rows whose files are not there: they would be met after hours.
    fn refuse_missing(&self, rows: &[&Row]) -> Result<(), DataError> {
        // On many threads, since each query of a remote disk is slow.
        let missing = rows.par_iter().filter(|row| !row.path.is_file());
        let missing: Vec<&&Row> = missing.collect();
        let Some(first) = missing.first() else {
            return Ok(());
        };
        let further = missing.iter().skip(1).take(FIRST - 1);
        let further: Vec<String> = further.map(|row| format!("line {}", row.line)).collect();
        let rest = match missing.len() - 1 {
            0 => String::new(),
            count => format!(
                ", and {} without its file: {}",
                counted(count, "more row"),
                further.join(", ")
            ),
        };
        let reason = format!("no file `{}`{rest}", first.path.display());
        Err(self.labels.error(first, reason))
    }

    /// Warnings about what is not read: images that no row names, columns, rows of other splits; and pictures of other formats.
    fn unused(&self) -> (Vec<String>, listing::OtherFormats) {
        let table = self.labels.path.display();
        let Files { images, others, .. } = listing::images(&self.data.path);
        let rows = self.labels.rows.iter();
        let named: HashSet<PathBuf> = rows.map(|row| whole(&row.path)).collect();
        let mut extra = images.iter().filter(|path| !named.contains(&whole(path)));
        let first = extra.next();
        let extra = first.map(|first| {
            let count = counted(1 + extra.count(), "image");
            format!(
                "no row of `{table}` names {count} in `{}`, such as `{}`: not used",
                self.data.path.display(),
                first.display()
            )
        });
        let columns = (!self.labels.unread.is_empty()).then(|| {
            let unread = columns(&self.labels.unread);
            format!("columns of `{table}` that are not read: {unread}")
        });
        let used = [&self.data.train, &self.data.val].map(|asked| self.found(asked));
        let is_read = |split: &&String| {
            self.data.val_fraction > 0.0
                || used.contains(&Some(split.as_str()))
                || TEST.contains(&split.as_str())
        };
        let unread: Vec<&String> = self.splits().filter(|split| !is_read(split)).collect();
        let names: BTreeSet<&String> = unread.iter().copied().collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let splits = (!unread.is_empty()).then(|| {
            format!(
                "{} of `{table}` with a split that is not read: {}",
                counted(unread.len(), "row"),
                quoted(&names)
            )
        });
        (
            [extra, columns, splits].into_iter().flatten().collect(),
            others,
        )
    }
}

/// Columns in a message. Programs that write the numbers of rows give theirs no name.
fn columns(names: &[String]) -> String {
    let names = names.iter().cloned();
    let (nameless, names): (Vec<String>, Vec<String>) = names.partition(String::is_empty);
    match (nameless.len(), names.as_slice()) {
        (0, names) => quoted(names),
        (count, []) => format!("{count} without a name"),
        (count, names) => format!("{} and {count} without a name", quoted(names)),
    }
}

#[cfg(test)]
mod tests;

//! Any number of labels for each image, as text: `cat|dog`.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Source;
use crate::text::quoted;
use crate::{ClassOrder, DataError};

/// What stands between two labels. Alone it says that there is none, as an empty text does.
pub(super) const BETWEEN: &str = "|";

/// The labels in a text.
///
/// # Errors
/// The reason, if one is empty or there twice.
pub(super) fn labels_in(text: &str) -> Result<Vec<&str>, String> {
    let text = text.trim();
    if text.is_empty() || text == BETWEEN {
        return Ok(Vec::new());
    }
    let (mut labels, mut seen) = (Vec::new(), HashSet::new());
    for label in text.split(BETWEEN).map(str::trim) {
        if label.is_empty() {
            return Err(format!("one of the labels `{text}` is empty"));
        }
        if !seen.insert(label) {
            return Err(format!("the label `{label}` is twice in `{text}`"));
        }
        labels.push(label);
    }
    Ok(labels)
}

/// Whether an image has the label of a column, by its cell there.
pub(super) fn flag(cell: &str) -> Option<bool> {
    let is = |word: &str| cell.eq_ignore_ascii_case(word);
    match cell {
        "0" => Some(false),
        "1" => Some(true),
        _ if is("false") => Some(false),
        _ if is("true") => Some(true),
        _ => None,
    }
}

/// Whether a column can be that of a class, by its name.
pub(super) fn is_class(name: &str) -> bool {
    let is_line = !name.contains(['\n', '\r']) && name.trim() == name;
    is_line && !name.is_empty() && !name.contains(BETWEEN)
}

/// Classes, and their numbers by name.
pub(super) struct Numbers<'a> {
    classes: &'a [String],
    by_name: HashMap<&'a str, u32>,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(classes: &'a [String]) -> Self {
        let by_name = classes.iter().map(String::as_str).zip(0..).collect();
        Self { classes, by_name }
    }

    /// The numbers of labels.
    ///
    /// # Errors
    /// The reason, if one is none of the classes.
    pub(super) fn of(&self, labels: &[&str]) -> Result<Vec<u32>, String> {
        let number = |label: &&str| {
            self.by_name.get(label).copied().ok_or_else(|| {
                let classes = quoted(self.classes);
                format!("the label `{label}` is none of the classes {classes}")
            })
        };
        labels.iter().map(number).collect()
    }
}

impl Source {
    /// Whether each image has any number of labels.
    pub fn has_label_sets(&self) -> bool {
        self.label_sets.is_some()
    }

    /// The labels of an image, in order: one, unless [`has_label_sets`](Self::has_label_sets).
    pub fn labels(&self, index: u32) -> &[u32] {
        let place = index as usize;
        match &self.label_sets {
            Some(sets) => sets.get(place).map_or(&[], Vec::as_slice),
            None => {
                let sample = self.samples.get(place);
                sample.map_or(&[], |sample| std::slice::from_ref(&sample.label))
            }
        }
    }

    /// The number of images without a label.
    pub fn unlabelled(&self) -> usize {
        let sets = self.label_sets.as_deref().unwrap_or_default();
        sets.iter().filter(|labels| labels.is_empty()).count()
    }

    /// The same with the labels of each image. By the first one, or class 0 where there is none, images are divided.
    pub(super) fn with_label_sets(mut self, mut sets: Vec<Vec<u32>>) -> Self {
        for (sample, labels) in self.samples.iter_mut().zip(&mut sets) {
            labels.sort_unstable();
            sample.label = labels.first().copied().unwrap_or(0);
        }
        self.label_sets = Some(sets.into());
        self
    }

    /// The same where classes are texts such as `cat|dog`: the classes are these, or otherwise those with a column, or all labels in the
    /// texts, in order.
    ///
    /// # Errors
    /// If classes are not texts, a text names a label twice or another one than these classes, or others have columns.
    pub(super) fn split_labels(
        mut self,
        classes: Option<&[String]>,
        order: ClassOrder,
    ) -> Result<Self, DataError> {
        if !self.are_labels {
            let reason = "the labels are numbers; expected text, such as `cat|dog` for two labels";
            return Err(DataError::records(self.root, reason));
        }
        let texts = std::mem::take(&mut self.classes);
        // The image that has a text, for messages: its path names the row.
        let path = |text: usize| {
            let has = self.samples.iter().find(|one| one.label as usize == text);
            has.map_or_else(|| self.root.clone(), |sample| sample.path.clone())
        };
        let bad = |text: usize, reason: String| DataError::records(path(text), reason);
        let mut parts = Vec::new();
        for (text, labels) in texts.iter().enumerate() {
            let labels = labels_in(labels);
            parts.push(labels.map_err(|reason| bad(text, reason))?);
        }
        let columns = self.class_columns.take();
        if let (Some(known), Some(columns)) = (classes, &columns)
            && known.iter().collect::<BTreeSet<_>>() != columns.iter().collect::<BTreeSet<_>>()
        {
            return Err(self.other_classes(columns, known));
        }
        let classes = classes.map_or_else(
            || {
                let mut all = columns.unwrap_or_else(|| {
                    let all: BTreeSet<&str> = parts.iter().flatten().copied().collect();
                    all.into_iter().map(str::to_owned).collect()
                });
                order.sort(&mut all);
                all
            },
            <[String]>::to_vec,
        );
        if classes.is_empty() {
            let reason = "no image has a label: expected text, such as `cat|dog` for two labels";
            return Err(DataError::records(self.root, reason));
        }
        let numbers = Numbers::new(&classes);
        let mut sets = Vec::new();
        for (text, labels) in parts.iter().enumerate() {
            let labels = numbers.of(labels);
            sets.push(labels.map_err(|reason| bad(text, reason))?);
        }
        let of = |label: u32| sets.get(label as usize).cloned().unwrap_or_default();
        let sets = self.samples.iter().map(|sample| of(sample.label)).collect();
        self.classes = classes;
        Ok(self.with_label_sets(sets))
    }
}

#[cfg(test)]
mod tests;

//! `[multi_label]`: when an image has a label.

use kvt_data::schema::section;
use kvt_data::text::quoted;

use crate::error::TrainError;

section! {
    /// Several labels for each image, with `task = "multi-label"`: each class by itself, with a sigmoid.
    #[schemars(extend("x-resume" = "free"))]
    pub struct MultiLabelConfig {
        /// An image has the labels whose probability is above this. Training, its loss and mAP do not depend on it.
        pub threshold: f64 = 0.5, "x-range" = "[0, 1)";
        /// Thresholds of some classes in place of `threshold`: `["cat = 0.3", "dog = 0.7"]`.
        pub thresholds: Vec<String> = Vec::new();
    }
}

impl MultiLabelConfig {
    /// The class and the threshold that each entry of [`thresholds`](Self::thresholds) names; `None` if it names none.
    fn named(&self) -> impl Iterator<Item = Option<(&str, f64)>> {
        self.thresholds.iter().map(|entry| {
            // A class may contain an equals sign, a threshold does not.
            let (class, threshold) = entry.rsplit_once('=')?;
            let threshold: f64 = threshold.trim().parse().ok()?;
            let is_one = (0.0..1.0).contains(&threshold) && !class.trim().is_empty();
            is_one.then_some((class.trim(), threshold))
        })
    }

    /// The first entry that is not a class and its threshold, or whose class has one already, and what is expected instead.
    pub(crate) fn misfit(&self) -> Option<(&str, &'static str)> {
        let mut seen = Vec::new();
        self.named()
            .zip(&self.thresholds)
            .find_map(|(named, entry)| {
                let expected = match named {
                    Some((class, _)) if seen.contains(&class) => "each class once",
                    Some((class, _)) => {
                        seen.push(class);
                        return None;
                    }
                    None => {
                        "a class and its threshold, at least 0 and below 1, as in `\"cat = 0.3\"`"
                    }
                };
                Some((entry.as_str(), expected))
            })
    }

    /// The threshold of each of the classes.
    ///
    /// # Errors
    /// [`TrainError::Threshold`] if one is for another class.
    pub fn of(&self, classes: &[String]) -> Result<Vec<f64>, TrainError> {
        let mut all = vec![self.threshold; classes.len()];
        for (class, threshold) in self.named().flatten() {
            let place = classes.iter().position(|name| name == class);
            match place.and_then(|place| all.get_mut(place)) {
                Some(own) => *own = threshold,
                None => {
                    return Err(TrainError::Threshold {
                        class: class.to_owned(),
                        known: quoted(classes),
                    });
                }
            }
        }
        Ok(all)
    }
}

//! How `kvt predict` writes its results: row by row, as images are classified.

use std::path::{Path, PathBuf};

use serde_json::json;

use kvt_data::escape::one_line;
use kvt_tools::trained::Prediction;
use kvt_train::table::{cells, csv_lines};

/// A text that grows with every image. The parts returned by `begin`, `row` and `end` are concatenated without separators.
pub(super) enum Rows {
    /// For readers: images that failed are left out, since their errors are on stderr. With the widths of the longest file name and
    /// class.
    Table([usize; 2]),
    /// An array of objects.
    Json,
    /// A row for each class of each image, the best with rank 1; one without a rank for an image that has none.
    Csv,
}

/// Characters of a probability, and of its heading.
const PROBABILITY: usize = 11;

impl Rows {
    /// A table that has room for these files and classes.
    pub(super) fn table(files: &[PathBuf], classes: usize, names: Option<&[String]>) -> Self {
        let length = |text: &str| one_line(text).chars().count();
        let files = files.iter().map(|file| length(&file.display().to_string()));
        let names = names.into_iter().flatten().map(|name| length(name));
        let number = length(&classes.saturating_sub(1).to_string());
        let image = files.chain(["image".len()]).max();
        let class = names.chain(["class".len(), number]).max();
        Self::Table([image, class].map(Option::unwrap_or_default))
    }

    /// The format given by the extension of a file.
    pub(super) fn of_file(path: &Path) -> Self {
        if path.extension().is_some_and(|ending| ending == "json") {
            Self::Json
        } else {
            Self::Csv
        }
    }

    pub(super) fn begin(&self) -> String {
        match self {
            Self::Table(_) => String::new(),
            Self::Json => "[".to_owned(),
            Self::Csv => "image,rank,class,probability,error\n".to_owned(),
        }
    }

    /// One image; `is_first` marks the first one that gets a row.
    pub(super) fn row(&self, prediction: &Prediction, is_first: bool) -> String {
        let image = prediction.image.display().to_string();
        match (self, &prediction.found) {
            (Self::Table(_), Err(_)) => String::new(),
            (Self::Table(widths), Ok(guesses)) => {
                let mut text = if is_first {
                    line(widths, "image", "class", "probability")
                } else {
                    String::new()
                };
                if guesses.is_empty() {
                    text += &line(widths, &image, "-", "-");
                }
                for (rank, guess) in guesses.iter().enumerate() {
                    // The file's name only beside its first class.
                    let name = if rank == 0 { image.as_str() } else { "" };
                    let percent = format!("{:.2} %", 100.0 * guess.probability);
                    text += &line(widths, name, &guess.class, &percent);
                }
                text
            }
            (Self::Json, found) => {
                // JSON cannot hold a path that is not UTF-8.
                let record = match found {
                    Ok(guesses) => {
                        let top = guesses
                            .iter()
                            .map(|g| json!({"class": g.class, "probability": g.probability}));
                        json!({"image": image, "top": top.collect::<Vec<_>>()})
                    }
                    Err(error) => json!({"image": image, "error": error}),
                };
                let comma = if is_first { "" } else { "," };
                let record = format!("{record:#}").replace('\n', "\n  ");
                format!("{comma}\n  {record}")
            }
            // No label is above its threshold.
            (Self::Csv, Ok(guesses)) if guesses.is_empty() => {
                csv_lines([cells([&image, &"", &"", &"", &""])])
            }
            (Self::Csv, Ok(guesses)) => {
                let rows = (1..).zip(guesses).map(|(rank, guess)| {
                    cells([&image, &rank, &guess.class, &guess.probability, &""])
                });
                csv_lines(rows)
            }
            (Self::Csv, Err(error)) => csv_lines([cells([&image, &"", &"", &"", error])]),
        }
    }

    pub(super) fn end(&self, is_empty: bool) -> &'static str {
        match (self, is_empty) {
            (Self::Json, true) => "]\n",
            (Self::Json, false) => "\n]\n",
            _ => "",
        }
    }
}

/// A line of the table, whose first two columns have these widths.
fn line(&[images, classes]: &[usize; 2], image: &str, class: &str, probability: &str) -> String {
    let (image, class) = (one_line(image), one_line(class));
    format!("{image:images$}  {class:>classes$}  {probability:>PROBABILITY$}\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::Value;

    use super::*;
    use kvt_train::judge::Guess;

    fn predictions() -> [Prediction; 3] {
        let guess = |class: &str, probability| Guess {
            class: class.to_owned(),
            probability,
        };
        let of = |image: &str, found| Prediction {
            image: image.into(),
            found,
        };
        [
            of("broken.png", Err("no \"image\", at all".to_owned())),
            of(
                "a.png",
                Ok(vec![guess("cat", 0.75), guess("big, dog", 0.25)]),
            ),
            of("long name.png", Ok(vec![guess("cat", 1.0)])),
        ]
    }

    fn text(rows: &Rows, predictions: &[Prediction]) -> String {
        let mut text = rows.begin();
        let mut is_first = true;
        for prediction in predictions {
            let row = rows.row(prediction, is_first);
            is_first &= row.is_empty();
            text += &row;
        }
        text + rows.end(is_first)
    }

    #[test]
    fn rows_that_come_one_by_one_make_one_document() {
        let all = predictions();
        // The same as serde's output for the whole array.
        let whole = json!([
            {"image": "broken.png", "error": "no \"image\", at all"},
            {"image": "a.png", "top": [
                {"class": "cat", "probability": 0.75}, {"class": "big, dog", "probability": 0.25}]},
            {"image": "long name.png", "top": [{"class": "cat", "probability": 1.0}]},
        ]);
        for count in 0..=3 {
            let part: Value = whole.as_array().unwrap()[..count].to_vec().into();
            assert_eq!(text(&Rows::Json, &all[..count]), format!("{part:#}\n"));
        }
        assert_eq!(
            text(&Rows::Csv, &all),
            "image,rank,class,probability,error\n\
             broken.png,,,,\"no \"\"image\"\", at all\"\n\
             a.png,1,cat,0.75,\na.png,2,\"big, dog\",0.25,\n\
             long name.png,1,cat,1,\n"
        );
    }

    #[test]
    fn an_image_without_a_label_has_a_row() {
        let none = [Prediction {
            image: "a.png".into(),
            found: Ok(Vec::new()),
        }];
        let rows = Rows::table(&["a.png".into()], 1, Some(&["cat".to_owned()]));
        assert_eq!(
            text(&rows, &none),
            "image  class  probability\na.png      -            -\n"
        );
        let lines = text(&Rows::Csv, &none);
        assert_eq!(lines, "image,rank,class,probability,error\na.png,,,,\n");
        let json: Value = serde_json::from_str(&text(&Rows::Json, &none)).unwrap();
        assert_eq!(json, json!([{"image": "a.png", "top": []}]));
    }

    #[test]
    fn a_table_has_one_width_from_its_first_row() {
        let all = predictions();
        let files: Vec<PathBuf> = all.iter().map(|p| p.image.clone()).collect();
        let names = ["cat", "big, dog"].map(str::to_owned);
        let rows = Rows::table(&files, 2, Some(&names));
        assert_eq!(
            text(&rows, &all),
            "image             class  probability\n\
             a.png               cat      75.00 %\n\
             \u{20}              big, dog      25.00 %\n\
             long name.png       cat     100.00 %\n"
        );
        assert_eq!(text(&rows, &all[..1]), "");
        // Classes without names are shown as numbers.
        let numbered = Rows::table(&files, 1_000_001, None);
        assert!(matches!(numbered, Rows::Table([_, 7])));
    }
}

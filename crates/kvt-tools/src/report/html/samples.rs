//! Single images: as the model sees them, with each run's predictions and the attention of its class token.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::RgbImage;
use image::codecs::jpeg::JpegEncoder;

use super::super::ReportError;
use super::Report;
use super::chart::color_class;
use super::markup::Markup;
use crate::groups::grouped;
use crate::probe::{HeadMap, draw_map};
use kvt_train::judge::Guess;
use kvt_train::plot::encode_png;
use kvt_train::task::TaskKind;

/// Pictures up to this side are stored losslessly and shown with sharp pixels.
const SMALL: u32 = 64;
/// JPEG quality of larger pictures.
const QUALITY: u8 = 88;

/// An image with one run's predictions.
#[derive(Debug)]
pub struct Sample {
    /// The number of the run in the report.
    pub run: usize,
    /// Its file.
    pub image: String,
    /// Its class, or all of its labels.
    pub classes: Vec<String>,
    /// The image as the model sees it.
    pub picture: RgbImage,
    /// The most probable classes with their probabilities, best first; none from a backbone without a head.
    pub guesses: Vec<Guess>,
    /// The attention of the class token in the last block that has a map, head by head; empty if no block has one.
    pub maps: Vec<HeadMap>,
}

impl Sample {
    /// Whether a class is one of the image's; `None` if it has none.
    fn is_right(&self, class: &str) -> Option<bool> {
        let is_own = || self.classes.iter().any(|own| own == class);
        (!self.classes.is_empty()).then(is_own)
    }
}

/// The images that were chosen independently of the results.
pub(super) fn chosen(report: &Report) -> Result<Markup, ReportError> {
    let mut page = Markup::default();
    for remark in &report.remarks {
        page.note(remark);
    }
    let samples = &report.samples;
    if samples.iter().any(|sample| !sample.maps.is_empty()) {
        let text = "Below each image: where the class token looks in the last block that has a map, head by head, and how many patches it \
                    looks at. The brightest patch has the largest weight; a map of even weights is red throughout. Dark blue patches get no \
                    attention, as with k-NN attention.";
        page.note(text);
    }
    cards(&mut page, report, samples)?;
    super::painted::painted(&mut page, report)?;
    Ok(page)
}

/// The images that runs got wrong with the highest confidence, run by run.
pub(super) fn mistakes(report: &Report) -> Result<Markup, ReportError> {
    let mut page = Markup::default();
    let mistakes = report.mistakes.iter().map(|sample| (sample.run, sample));
    for (run, own) in grouped(mistakes) {
        if report.records.len() > 1 {
            page.element("h3", &[], report.name(run));
        }
        cards(&mut page, report, own)?;
    }
    Ok(page)
}

/// The images, each once, with the predictions of all runs.
fn cards<'a>(
    page: &mut Markup,
    report: &Report,
    samples: impl IntoIterator<Item = &'a Sample>,
) -> Result<(), ReportError> {
    let samples = samples.into_iter();
    let images = grouped(samples.map(|sample| (sample.image.as_str(), sample)));
    page.within("div", &[("class", "cards")], |page| {
        let mut images = images.iter();
        images.try_for_each(|(_, all)| card(page, report, all))
    })
}

fn card(page: &mut Markup, report: &Report, all: &[&Sample]) -> Result<(), ReportError> {
    let Some(first) = all.first() else {
        return Ok(());
    };
    let picture = data_uri(&first.picture)?;
    page.within("figure", &[("class", "card")], |page| {
        let names = first.classes.join(", ");
        let of = if has_labels(report, first) {
            "with the labels"
        } else {
            "of class"
        };
        let words = format!("image {of} {names}");
        let class = if first.picture.width() <= SMALL {
            "picture pixels"
        } else {
            "picture"
        };
        page.image(class, &picture, &words, &first.image);
        page.within("figcaption", &[], |page| {
            page.element("strong", &[], &names);
            page.element("span", &[("class", "file")], file(&first.image));
            let mut all = all.iter();
            all.try_for_each(|sample| said(page, report, sample))
        })
    })
}

/// Whether the run of a sample gives an image several labels, so that a wrong one is not in place of another.
fn has_labels(report: &Report, sample: &Sample) -> bool {
    report.task(sample.run) == Some(TaskKind::MultiLabel)
}

/// One run's predictions for the image.
fn said(page: &mut Markup, report: &Report, sample: &Sample) -> Result<(), ReportError> {
    page.within("div", &[("class", "said")], |page| {
        if report.records.len() > 1 {
            let class = format!("swatch {}", color_class(report.label_number(sample.run)));
            page.within("p", &[("class", "run")], |page| {
                page.element("span", &[("class", &*class)], "");
                page.text(report.name(sample.run));
            });
        }
        let wrong = if has_labels(report, sample) {
            "✗ not among its labels: "
        } else {
            "✗ taken for "
        };
        for (rank, Guess { class, probability }) in sample.guesses.iter().enumerate() {
            let (kind, mark) = match (rank, sample.is_right(class)) {
                (0, Some(true)) => ("guess first is-right", "✓ "),
                (0, Some(false)) => ("guess first is-wrong", wrong),
                _ => ("guess", ""),
            };
            page.within("div", &[("class", kind)], |page| {
                page.element("span", &[], &format!("{mark}{class}"));
                page.element("span", &[], &format!("{:.1} %", 100.0 * probability));
                bar(page, *probability);
            });
        }
        if sample.maps.is_empty() {
            return Ok(());
        }
        page.within("div", &[("class", "maps")], |page| {
            for (head, map) in (1..).zip(&sample.maps) {
                let uri = data_uri(&draw_map(map))?;
                let kept = format!("{} of {}", map.kept, map.weights.len());
                let words = format!("head {head}: {kept} patches looked at");
                page.within("div", &[], |page| {
                    page.image("pixels", &uri, &words, &words);
                    page.element("span", &[], &format!("head {head}: {kept}"));
                });
            }
            Ok(())
        })
    })
}

/// The name of a file without its folders.
pub(super) fn file(image: &str) -> &str {
    let name = Path::new(image).file_name();
    name.and_then(|name| name.to_str()).unwrap_or(image)
}

/// A probability as a bar.
fn bar(page: &mut Markup, probability: f64) {
    let width = format!("{:.1}", 100.0 * probability.clamp(0.0, 1.0));
    let attributes = [
        ("class", "bar"),
        ("viewBox", "0 0 100 4"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
    ];
    page.within("svg", &attributes, |page| {
        page.void("rect", &[("width", &*width), ("height", "4")]);
    });
}

/// A picture embedded in the page.
pub(super) fn data_uri(picture: &RgbImage) -> Result<String, ReportError> {
    let (width, height) = picture.dimensions();
    if width.max(height) <= SMALL {
        let bytes = encode_png(picture, width, height).map_err(ReportError::Picture)?;
        return Ok(format!("data:image/png;base64,{}", STANDARD.encode(bytes)));
    }
    let mut bytes = Vec::new();
    let written = JpegEncoder::new_with_quality(&mut bytes, QUALITY).encode_image(picture);
    written.map_err(|error| ReportError::Picture(error.to_string()))?;
    Ok(format!("data:image/jpeg;base64,{}", STANDARD.encode(bytes)))
}

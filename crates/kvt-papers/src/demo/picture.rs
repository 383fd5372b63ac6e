//! Where the class token of each run looks on the same image.

use image::RgbImage;

use kvt_tools::probe::{Drawn, Labelled, NOTE, labelled, parts};
use kvt_tools::report::html::Report;

/// The first sample of each run of a report: below the name of the run the image, and the image under the map of each head.
///
/// # Errors
/// The drawing library's message.
pub(super) fn picture(report: &Report) -> Result<RgbImage, String> {
    let names = report.records.iter().map(|record| record.name.clone());
    let rows: Vec<Vec<Labelled>> = names
        .enumerate()
        .filter_map(|(run, name)| {
            let sample = report.samples.iter().find(|sample| sample.run == run)?;
            Some(parts(
                &sample.picture,
                vec![name],
                &sample.maps,
                Drawn::OnImage,
            ))
        })
        .collect();
    labelled(&rows, NOTE)
}

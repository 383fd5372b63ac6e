//! Evaluates the model of a run on images, for its report.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use kvt_models::Model;

use super::Args;
use crate::eval::{Images, judge};
use crate::labelled::{Folder, Split};
use crate::output;
use crate::trained::{self, Trained};
use kvt_train::data::{View, image_key};
use kvt_train::judge::Judgement;
use kvt_train::judge::best;
use kvt_train::preview;
use kvt_train::probe::class_attention;
use kvt_train::report::html::{Judged, Report, Sample};
use kvt_train::splits::{eval_transform, image_limits};
use kvt_train::task::{TaskKind, check_classes, predict};

/// Number of classes shown for an image.
const GUESSES: usize = 3;

/// A model with the images to evaluate.
struct Shown {
    /// The number of the run in the report.
    run: usize,
    trained: Trained,
    images: Images,
}

/// Adds the results of one run on images to a report.
pub(super) fn add(report: &mut Report, run: usize, args: &Args) -> anyhow::Result<()> {
    let Some(record) = report.records.get(run) else {
        return Ok(());
    };
    if report.records.len() > 1 {
        output::status(&format!("{}:", record.name));
    }
    let path = record.path.clone();
    let shown = Shown::open(run, &path, args)?;
    if args.is_judged() {
        let judged = shown.judge(&args.checkpoint)?;
        let verdicts = judged.judgement.verdicts.iter();
        let mut wrong: Vec<_> = verdicts.filter(|one| one.label != one.predicted).collect();
        // Stable: equally confident ones stay in the order of the split.
        wrong.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        let wrong: Vec<u32> = wrong
            .iter()
            .map(|one| one.index)
            .take(args.samples)
            .collect();
        report.judged.push(judged);
        let mistakes = shown.samples(&wrong, report)?;
        report.mistakes.extend(mistakes);
    }
    let images = shown.images.source.samples.len();
    let count = args.samples.min(images);
    // Evenly spaced, so that all classes have their share.
    let places = (0..count).map(|place| (2 * place + 1) * images / (2 * count));
    let places: Vec<u32> = places
        .filter_map(|place| u32::try_from(place).ok())
        .collect();
    let samples = shown.samples(&places, report)?;
    report.samples.extend(samples);
    Ok(())
}

/// Checks that a run and its images can be loaded.
pub(super) fn check(path: &Path, args: &Args) -> anyhow::Result<()> {
    Shown::open(0, path, args).map(drop)
}

impl Shown {
    fn open(run: usize, path: &Path, args: &Args) -> anyhow::Result<Self> {
        let from = trained::Args::of_run(path, &args.checkpoint, args.ema).with_raw(args.raw);
        // If no classes are evaluated, the backbone of DINO is enough.
        let trained = if args.is_judged() {
            from.load(&args.overrides)?
        } else {
            from.load_backbone(&args.overrides, false)?
        };
        let plan = &trained.plan;
        let classes = trained.classes.as_deref();
        let (source, words) = match &args.data {
            Some(dir) => {
                let folder = Folder::open(dir, classes, plan)?;
                let words = folder.words();
                (folder.source, words)
            }
            None => {
                let source = Split::Val.open(plan, classes).map_err(|error| {
                    anyhow!(
                        "the images of run `{}` cannot be read: {error:#}; say where they are with `--data DIR` or \
                         `--set data.path=DIR`, or leave out `--eval` and `--samples`",
                        path.display()
                    )
                })?;
                let words = Split::Val.words(&source);
                (source, words)
            }
        };
        if plan.task == TaskKind::Classify {
            check_classes(&trained.model.config(), &source)?;
        }
        Ok(Self {
            run,
            images: Images {
                transform: Arc::new(eval_transform(plan, trained.size)?),
                source: Arc::new(source),
                words,
            },
            trained,
        })
    }

    /// Evaluates all images of the split.
    fn judge(&self, checkpoint: &str) -> anyhow::Result<Judged> {
        let images = &self.images;
        let mut judgement = Judgement::new(images.source.classes.len());
        let evaluation = judge(&self.trained, images, None, &mut judgement)?;
        Ok(Judged {
            run: self.run,
            checkpoint: checkpoint.to_owned(),
            images: images.words.clone(),
            classes: self.images.source.classes.clone(),
            evaluation,
            judgement,
        })
    }

    /// Some images. An unreadable image, or a model without attention maps, becomes a remark of the report.
    fn samples(&self, indices: &[u32], report: &mut Report) -> anyhow::Result<Vec<Sample>> {
        let mut samples = Vec::new();
        let mut has_maps = true;
        for &index in indices {
            let view = match self.view(index) {
                Ok(view) => view,
                Err(error) => {
                    remark(report, format!("{error:#}"));
                    continue;
                }
            };
            let Trained {
                plan,
                model,
                device,
                size,
                ..
            } = &self.trained;
            let mut maps = Vec::new();
            if has_maps {
                let device = device.device.clone().inner();
                match class_attention(model, view.clone().upload(&device))? {
                    Ok(found) => maps = found.into_iter().next().unwrap_or_default(),
                    Err(reason) => {
                        has_maps = false;
                        let name = report
                            .records
                            .get(self.run)
                            .map(|record| &record.name)
                            .cloned()
                            .unwrap_or_default();
                        remark(report, format!("no attention maps of `{name}`: {reason}"));
                    }
                }
            }
            let (class, image) = self.told(index);
            samples.push(Sample {
                run: self.run,
                image,
                class,
                picture: preview::picture(&view.pixels, *size, &plan.augment),
                guesses: match plan.task {
                    TaskKind::Classify => self.guesses(model, view)?,
                    TaskKind::Dino => Vec::new(),
                },
                maps,
            });
        }
        Ok(samples)
    }

    /// The class and the file of an image.
    fn told(&self, index: u32) -> (String, String) {
        let sample = self.images.source.samples.get(index as usize);
        let class = sample.and_then(|sample| self.images.source.classes.get(sample.label as usize));
        let file = sample.map(|sample| sample.path.display().to_string());
        (class.cloned().unwrap_or_default(), file.unwrap_or_default())
    }

    /// An image as the model sees it.
    fn view(&self, index: u32) -> anyhow::Result<View> {
        let limits = image_limits(&self.trained.plan);
        let key = image_key(0, 0, index);
        let source = &self.images.source;
        Ok(source.view(index, limits, &self.images.transform, key)?)
    }

    fn guesses(&self, model: &Model, view: View) -> anyhow::Result<Vec<(String, f64)>> {
        let (logits, _) = predict(model, view, &self.trained.device.device)?;
        let guesses = best(&logits, Some(&self.images.source.classes), GUESSES).into_iter();
        Ok(guesses
            .map(|guess| (guess.class, guess.probability))
            .collect())
    }
}

/// Adds a remark once, and prints it as a warning.
fn remark(report: &mut Report, text: String) {
    if !report.remarks.contains(&text) {
        output::warning(&text);
        report.remarks.push(text);
    }
}

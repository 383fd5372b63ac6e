//! Runs on generated scenes.

use std::collections::BTreeMap;

use kvt_data::schema;
use kvt_testing::scenes::{OPTIM, SEGMENT, model, shapes};

use super::*;
use crate::task::testing::train_in;
use crate::world::threads;

/// A run of seven updates, three per epoch, evaluated every second one.
pub(super) fn workspace() -> Workspace<Segment> {
    let more = r#"
drop_path = 0.1
[model.attention]
kind = "knn"
neighbors = 0.8
[dense]
scale = [48, 32]
crop = [32, 32]
[ema]
decay = 0.9
[schedule]
kind = "poly"
power = 1.0
min_lr = 0.0
per = "step"
warmup_updates = 2
[train]
batch_size = 4
updates = 7
eval_every_updates = 2
device = "cpu"
"#;
    let (model, shapes) = (model("segment", 32), shapes("", 32, 3, [4, 1]));
    Workspace::new(&format!("{model}{more}{shapes}{SEGMENT}{OPTIM}"))
}

/// Evaluations come after the updates that are asked for and after the last one, wherever they are in an epoch; epochs end where
/// the images do, and the last one where the run does.
#[test]
fn a_run_in_updates_is_evaluated_by_updates_and_learns_the_same_with_any_workers() {
    let workspace = workspace();
    let (end, events) = workspace.train("a", &["data.workers=0"], Start::New, u64::MAX);
    assert_eq!(end, End::Finished);
    let at = |split: &str| {
        let of = evals(&events)
            .into_iter()
            .filter(|eval| eval.split == split);
        of.map(|eval| (eval.step, eval.epoch)).collect::<Vec<_>>()
    };
    let places = [(2, 0), (4, 1), (6, 1), (7, 2)];
    assert_eq!(at("val"), places);
    assert_eq!(at("val_ema"), places);
    let epochs = events.iter().filter_map(|event| match event {
        Event::Epoch(epoch) => Some((epoch.step, epoch.epoch)),
        _ => None,
    });
    assert_eq!(epochs.collect::<Vec<_>>(), [(3, 0), (6, 1), (7, 2)]);
    for eval in evals(&events) {
        assert_eq!(eval.images, 3);
        for metric in Segment::METRICS {
            let value = eval.metrics.get(metric.name).unwrap();
            let most = if metric.percent { 100.0 } else { 10.0 };
            assert!((0.0..=most).contains(&value), "{} {value}", metric.name);
        }
    }
    let rows = fs_err::read_to_string(workspace.path("a/epochs.csv")).unwrap();
    assert!(
        rows.starts_with("epoch,train_loss,lr,val_loss,val_miou,val_macc,val_aacc,"),
        "{rows}"
    );
    assert_eq!(rows.lines().count(), 4);

    let (_, others) = workspace.train("b", &["data.workers=2"], Start::New, u64::MAX);
    assert_eq!(evals(&others), evals(&events));
    assert_eq!(workspace.weights("b"), workspace.weights("a"));
}

/// Stopped within an epoch, and where an evaluation is due, a run goes on as if it had not stopped.
#[test]
fn a_resumed_run_is_bit_equal() {
    let workspace = workspace();
    let (_, events) = workspace.train("whole", &[], Start::New, u64::MAX);
    for stop in [1, 4] {
        let run = format!("stopped-{stop}");
        let (end, first) = workspace.train(&run, &[], Start::New, stop);
        assert_eq!(end, End::Stopped);
        let (end, second) = workspace.train(&run, &[], Start::RESUME, u64::MAX);
        assert_eq!(end, End::Finished);
        let mut both = evals(&first);
        both.extend(evals(&second));
        assert_eq!(both, evals(&events), "{stop}");
        assert_eq!(
            workspace.weights(&run),
            workspace.weights("whole"),
            "{stop}"
        );
    }
}

/// Products in a half type change the losses a little.
#[test]
fn half_types_train_nearly_the_same() {
    let workspace = workspace();
    let losses = |precision: &str| {
        let set = [
            &format!("train.precision={precision}"),
            "train.updates=4",
            "ema.decay=0.0",
        ];
        let (_, events) = workspace.train(precision, &set, Start::New, u64::MAX);
        let losses = evals(&events).into_iter();
        let losses = losses.map(|eval| eval.metrics.get("loss").unwrap());
        losses.collect::<Vec<_>>()
    };
    let full = losses("f32");
    assert_eq!(full.len(), 2);
    for precision in ["bf16", "f16"] {
        for (loss, full) in losses(precision).iter().zip(&full) {
            let difference = (loss - full).abs();
            assert!(
                difference > 0.0 && difference < 0.02,
                "{precision}: {loss} {full}"
            );
        }
    }
}

/// The only image of a batch would leave batch norms one value per channel; `train.batch_size` does not show it.
#[test]
fn a_single_training_image_is_refused() {
    let workspace = workspace();
    let error = workspace.error("run", &["data.subset=1"]);
    assert!(
        error.to_string().contains("one value per channel"),
        "{error}"
    );
}

/// Masks of which no pixel has a class teach nothing: a run says so, and one without any other does not begin.
#[test]
fn masks_without_a_class_are_told() {
    let workspace = workspace();
    let set = ["train.updates=25", "ema.decay=0.0", "log.every_steps=1"];
    let warnings = |run: &str| {
        let (_, events) = workspace.train(run, &set, Start::New, u64::MAX);
        let notes = events.into_iter().filter_map(|event| match event {
            Event::Note(note) if note.message.starts_with("no pixel of") => Some(note.message),
            _ => None,
        });
        notes.collect::<Vec<String>>()
    };
    assert!(warnings("whole").is_empty());
    let masks = fs_err::read_dir(workspace.path("data/masks/train")).unwrap();
    let mut masks: Vec<_> = masks.map(|entry| entry.unwrap().path()).collect();
    let empty = |mask: &Path| {
        let picture = image::GrayImage::from_pixel(32, 32, image::Luma([IGNORED]));
        picture.save(mask).unwrap();
    };
    let last = masks.pop().unwrap();
    for mask in &masks {
        empty(mask);
    }
    let told = warnings("few");
    assert!(
        matches!(&told[..], [text] if text.contains(" of the 100 crops of training images so far has a class")),
        "{told:?}"
    );
    empty(&last);
    let error = workspace.error("none", &set).to_string();
    let expected = "no pixel of the 12 masks to train on has a class: `data.map`";
    assert!(error.contains(expected), "{error}");
}

/// Two processes with batch norms of their own train and evaluate as one does: counts of pixels are summed, losses image by image.
#[test]
fn processes_train_and_evaluate_as_one() {
    let workspace = workspace();
    let run = |name: &str, processes: usize| {
        let set = [
            "train.accumulate=2",
            "train.sync_batch_norm=false",
            "train.updates=2",
        ];
        let plan = workspace.plan(name, &set);
        let mut all = threads(processes, |world| {
            let trained = train_in::<Segment>(world, plan.clone(), Start::New, u64::MAX);
            let (end, events) = trained.unwrap();
            assert_eq!(end, End::Finished);
            events
        });
        all.swap_remove(0)
    };
    let (one, two) = (run("one", 1), run("two", 2));
    assert_eq!(evals(&one).len(), 2);
    for (one, two) in evals(&one).into_iter().zip(evals(&two)) {
        assert_eq!(one.images, two.images);
        for (name, value) in one.metrics.iter() {
            let other = two.metrics.get(name).unwrap();
            // The gradients of the processes are summed in another order.
            assert!(
                (value - other).abs() <= 1e-4 * value.abs(),
                "{name}: {value} {other}"
            );
        }
    }
}

/// A window as large as the image is the image; smaller ones give other logits at their borders, and sum to one mean.
#[test]
fn a_window_as_large_as_the_image_is_the_image() {
    let workspace = workspace();
    let set = ["train.updates=1", "ema.decay=0.0"];
    let measured = |run: &str, more: &[&str]| {
        let set = [&set[..], more].concat();
        let (_, events) = workspace.train(run, &set, Start::New, u64::MAX);
        evals(&events)[0].metrics.clone()
    };
    let whole = measured("whole", &[]);
    let slide = |crop: &str, stride: &str| {
        measured(
            &format!("slide-{stride}"),
            &[
                "segment.eval=slide",
                &format!("segment.eval_crop={crop}"),
                &format!("segment.eval_stride={stride}"),
            ],
        )
    };
    assert_eq!(slide("[64, 64]", "[32, 32]"), whole);
    let loss = |metrics: &Metrics| metrics.get("loss").unwrap();
    let slid = slide("[16, 32]", "[8, 16]");
    let difference = (loss(&slid) - loss(&whole)).abs();
    assert!(difference > 1e-6 && difference < 1.0, "{difference}");
}

/// A classifier's weights are those of the backbone, and a network's are all; the last layers of another number of classes start
/// anew where that is asked for.
#[test]
fn weights_of_classifiers_and_of_networks_are_taken() {
    let workspace = workspace();
    let once = ["train.updates=1", "ema.decay=0.0"];
    workspace.train("first", &once, Start::New, u64::MAX);
    let weights = format!("init.weights={:?}", workspace.last("first"));
    let told = |run: &str, set: &[&str]| {
        let set = [&once[..], set].concat();
        let (_, events) = workspace.train(run, &set, Start::New, u64::MAX);
        note_of_weights(&events)
    };
    let all = told("all", &[&weights]);
    assert!(all.ends_with("a segmentation network's"), "{all}");
    // As well from the folder of the run.
    let folder = format!("init.weights={:?}", workspace.path("first"));
    let of_run = told("of-run", &[&folder]);
    assert!(of_run.ends_with("a segmentation network's"), "{of_run}");
    let anew = told("anew", &[&weights, "init.reset_head=always"]);
    assert!(
        anew.contains("with new `") && anew.contains("`decode_head.conv_seg.bias`"),
        "{anew}"
    );

    // At this size every map of the classifier has whole windows, too.
    let plan = workspace.plan("run", &["model.img_size=128"]);
    let config = plan.model.config(Some(5)).unwrap();
    let model = config.init(&Device::flex(), kvt_ops::Key::new(8)).unwrap();
    let state = kvt_models::weights::StateDict::from_model(&model).unwrap();
    let file = workspace.path("classifier.safetensors");
    crate::task::write_weights(&file, &state, &BTreeMap::new()).unwrap();
    let of_classifier = told("classifier", &[&format!("init.weights={file:?}")]);
    assert!(of_classifier.contains("a classifier's"), "{of_classifier}");
}

/// Pixels are not painted by logits that are not numbers.
#[test]
fn broken_logits_have_no_classes() {
    let workspace = workspace();
    let plan = workspace.plan("run", &[]);
    let config = plan.model.config(Some(1)).unwrap();
    let network = UperNet::build(&plan, &config, 4, &Device::flex()).unwrap();
    let labels = |pixel: f32| {
        let view = crate::data::View::whole(vec![pixel; 3 * 32 * 32], 3, (32, 32));
        predict_labels(&network, view, (20, 30), &plan.segment, &Device::flex()).unwrap()
    };
    assert_eq!(labels(0.5).unwrap().len(), 20 * 30);
    assert_eq!(labels(f32::NAN), None);
}

/// The settings are those of a schema: their defaults are in range.
#[test]
fn defaults_are_in_range() {
    assert!(schema::check(&SegmentConfig::default()).is_ok());
}

//! Images without objects, and networks that are broken.

use std::collections::BTreeMap;

use burn::tensor::TensorData;
use image::{Rgb, RgbImage};
use kvt_models::weights::{StateDict, read};
use serde_json::json;

use super::run::{without_data, workspace};
use super::*;
use crate::run::StepRecord;
use crate::task::write_weights;

/// Writes two wide images in COCO's format, each with an object at the right end, which most crops do not show.
fn write_wide_images(data: &Path) {
    for split in ["train", "val"] {
        fs_err::create_dir_all(data.join(split)).unwrap();
        for index in 0..2_u8 {
            let image = RgbImage::from_fn(320, 32, |x, y| Rgb([x as u8, 8 * y as u8, 90 * index]));
            image
                .save(data.join(split).join(format!("{index}.png")))
                .unwrap();
        }
    }
    let images = [0, 1].map(|index| {
        json!({"id": index + 1, "file_name": format!("{index}.png"), "width": 320, "height": 32})
    });
    let annotations = [1, 2].map(|id| {
        json!({"id": id, "image_id": id, "category_id": id, "bbox": [312, 4, 8, 24], "area": 192,
               "segmentation": [[312, 4, 320, 4, 320, 28, 312, 28]]})
    });
    let categories = [1, 2].map(|id| json!({"id": id, "name": format!("class {id}")}));
    let file = json!({"images": images, "annotations": annotations, "categories": categories});
    fs_err::create_dir_all(data.join("annotations")).unwrap();
    for split in ["train", "val"] {
        let path = data.join(format!("annotations/instances_{split}.json"));
        fs_err::write(path, file.to_string()).unwrap();
    }
}

/// A crop can leave out all objects of a batch: then the boxes and masks of regions have no loss, and training goes on.
#[test]
fn a_batch_without_objects_has_no_loss_of_boxes_and_masks() {
    let workspace = workspace();
    let data = workspace.path("wide");
    write_wide_images(&data);
    let config = format!(
        "{}\n[data]\nkind = \"coco\"\n[multiscale]\nsizes = [64]\nmax = 64\nhflip = 0.0\n",
        without_data()
    );
    fs_err::write(workspace.path("wide.toml"), config).unwrap();
    let set = [
        &format!("data.path={data:?}"),
        "train.batch_size=1",
        "train.updates=32",
        "train.eval_every_updates=0",
    ];
    let plan = workspace.plan_in("wide.toml", "run", &set);
    let (end, events) = train::<Detect>(plan, Start::New, u64::MAX).unwrap();
    assert_eq!(end, End::Finished);
    let steps: Vec<&StepRecord> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    assert_eq!(steps.len(), 32);
    let mut empty = 0;
    for step in &steps {
        assert!(step.loss.is_finite() && step.loss > 0.0, "{step:?}");
        let of = |name: &str| step.metrics.get(name).unwrap();
        let is_empty = of("mask_loss") == 0.0;
        // Anchors and regions are background then, which has a loss of its own.
        assert!(of("rpn_class_loss") > 0.0 && of("class_loss") > 0.0);
        assert_eq!(of("box_loss") == 0.0, is_empty, "{step:?}");
        assert!(!is_empty || of("rpn_box_loss") == 0.0, "{step:?}");
        empty += usize::from(is_empty);
    }
    assert!((1..32).contains(&empty), "{empty} updates without objects");
}

/// A network that gives no numbers ends the run, and says in which update.
#[test]
fn a_network_that_gives_no_numbers_ends_the_run() {
    let workspace = workspace();
    let diverged = workspace.error("diverged", &["optim.lr=1e30", "train.eval_every_updates=0"]);
    assert!(
        matches!(diverged, TrainError::NotFinite { step: 2, .. }),
        "{diverged}"
    );

    let once = ["train.updates=1", "train.eval_every_updates=0"];
    workspace.train("first", &once, Start::New, u64::MAX);
    let state = read(&workspace.last("first")).unwrap();
    // NaN deltas: no anchor becomes a proposal. NaN logits of classes: the proposals are good.
    for name in ["rpn_head.rpn_reg.bias", "roi_head.bbox_head.fc_cls.bias"] {
        assert!(state.get(name).is_some(), "{name}");
        let broken = state.iter().map(|(of, data)| {
            let data = if of == name {
                let shape = data.shape().to_vec();
                let numbers = vec![f32::NAN; shape.iter().product()];
                TensorData::new(numbers, shape)
            } else {
                data.clone()
            };
            (of.to_owned(), data)
        });
        let broken: StateDict = broken.collect();
        let file = workspace.path(&format!("{name}.safetensors"));
        write_weights(&file, &broken, &BTreeMap::new()).unwrap();
        let error = workspace.error(name, &[&format!("init.weights={file:?}")]);
        assert!(
            matches!(error, TrainError::NotFinite { step: 1, .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.starts_with("step 1 (epoch 1): loss NaN") && text.contains("cannot continue"),
            "{text}"
        );
    }
}

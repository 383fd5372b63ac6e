//! Which images are in a batch, and what is found in one.

use serde_json::{Value, json};

use super::run::{without_data, workspace};
use super::*;
use crate::data::{Batch, View};
use crate::world::Alone;

/// Names twelve images, every second one higher than wide and of another class, and writes empty files for them: nothing decodes them.
fn write_images(data: &Path) {
    let size = |id: u32| {
        if id.is_multiple_of(2) {
            (48, 40)
        } else {
            (40, 48)
        }
    };
    let images = (0..12).map(|id| {
        let (width, height) = size(id);
        json!({"id": id, "file_name": format!("{id}.png"), "width": width, "height": height})
    });
    let annotations = (0..12).map(|id| {
        json!({"id": id, "image_id": id, "category_id": 1 + id % 2, "bbox": [4, 4, 16, 16], "area": 256,
               "segmentation": [[4, 4, 20, 4, 20, 20, 4, 20]]})
    });
    let file = json!({
        "images": images.collect::<Vec<_>>(),
        "annotations": annotations.collect::<Vec<_>>(),
        "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
    });
    fs_err::create_dir_all(data.join("annotations")).unwrap();
    for split in ["train", "val"] {
        let path = data.join(format!("annotations/instances_{split}.json"));
        fs_err::write(path, file.to_string()).unwrap();
        fs_err::create_dir_all(data.join(split)).unwrap();
        for id in 0..12 {
            fs_err::write(data.join(split).join(format!("{id}.png")), b"").unwrap();
        }
    }
}

/// A plan with these images.
fn plan(workspace: &Workspace<Detect>, set: &[&str]) -> Plan {
    let data = workspace.path("mixed");
    write_images(&data);
    let config = format!(
        "{}\n[data]\nkind = \"coco\"\n[multiscale]\nsizes = [64]\nmax = 64\n",
        without_data()
    );
    fs_err::write(workspace.path("mixed.toml"), config).unwrap();
    let path = format!("data.path={data:?}");
    workspace.plan_in("mixed.toml", "run", &[&[path.as_str()][..], set].concat())
}

/// Six images of each kind fill two batches of four; every epoch has an order of its own. Without groups, twelve images are three batches.
#[test]
fn a_run_groups_images_by_their_orientation() {
    let workspace = workspace();
    let order = |set: &[&str], epoch: u32| {
        let plan = plan(&workspace, set);
        let splits = Splits::open(&plan, (64, 64), None, &mut |_, _| {}).unwrap();
        let prepare = Detect::prepare(&plan, &splits).unwrap();
        splits.train_loading(&plan, prepare, epoch, 0).order
    };
    let first = order(&[], 0);
    assert_eq!(first.len(), 16);
    for batch in first.chunks(4) {
        assert!(batch.iter().all(|image| image % 2 == batch[0] % 2));
    }
    assert_ne!(order(&[], 1), first);
    assert_eq!(order(&["data.group_orientation=false"], 0).len(), 12);
}

/// Of twelve images the first alone could be read: the objects of others are not missed. Boxes lie in the original image of 40 x 48 pixels.
#[test]
fn objects_of_images_that_were_not_read_do_not_count() {
    let workspace = workspace();
    let (plan, device) = (plan(&workspace, &[]), Device::flex());
    let splits = Splits::open(&plan, (64, 64), None, &mut |_, _| {}).unwrap();
    let model = Detect::model(&plan, &splits).unwrap();
    let network = MaskRcnn::build(&plan, &model, 2, &device).unwrap();
    let target = Objects {
        image_id: 0,
        size: (64, 64),
        original: (40, 48),
        all: Vec::new(),
    };
    let pixels = (0..3 * 64 * 64).map(|i: usize| (i * 7 % 61) as f32 / 30.0 - 1.0);
    let batch = Batch {
        views: vec![View::whole(pixels.collect(), 3, (64, 64))],
        targets: vec![target],
        indices: vec![0],
    };
    let batches = Ok(std::iter::once(Ok(batch)));
    let found = evaluate_objects(&network, batches, &splits.val, &device, &Alone, |_| {}).unwrap();
    let of_classes = found.scores.boxes.classes.iter();
    let counts: Vec<bool> = of_classes.map(Option::is_some).collect();
    assert_eq!((found.scores.images, counts), (1, vec![true, false]));

    let all: Vec<Value> = found.results().collect();
    assert!(!all.is_empty());
    for one in all {
        let side = |at: usize| one["bbox"][at].as_f64().unwrap();
        let (right, bottom) = (side(0) + side(2), side(1) + side(3));
        assert!(right <= 48.001 && bottom <= 40.001, "{one}");
        assert_eq!(one["segmentation"]["size"], json!([40, 48]));
        assert_eq!(one["image_id"], json!(0));
    }
}

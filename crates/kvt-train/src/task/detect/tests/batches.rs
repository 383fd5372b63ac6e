//! Which images are in a batch.

use serde_json::json;

use super::run::{without_data, workspace};
use super::*;

/// Names twelve images, every second one higher than wide, and writes empty files for them: nothing decodes them.
fn write_images(data: &Path) {
    let size = |id: u32| if id % 2 == 0 { (48, 40) } else { (40, 48) };
    let images = (0..12).map(|id| {
        let (width, height) = size(id);
        json!({"id": id, "file_name": format!("{id}.png"), "width": width, "height": height})
    });
    let annotations = (0..12).map(|id| {
        json!({"id": id, "image_id": id, "category_id": 1, "bbox": [4, 4, 16, 16], "area": 256,
               "segmentation": [[4, 4, 20, 4, 20, 20, 4, 20]]})
    });
    let file = json!({
        "images": images.collect::<Vec<_>>(),
        "annotations": annotations.collect::<Vec<_>>(),
        "categories": [{"id": 1, "name": "a"}],
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

/// Six images of each kind fill two batches of four; every epoch has an order of its own. Without groups, twelve images are three batches.
#[test]
fn a_run_groups_images_by_their_orientation() {
    let workspace = workspace();
    let data = workspace.path("mixed");
    write_images(&data);
    let config = format!(
        "{}\n[data]\nkind = \"coco\"\n[multiscale]\nsizes = [64]\nmax = 64\n",
        without_data()
    );
    fs_err::write(workspace.path("mixed.toml"), config).unwrap();
    let path = format!("data.path={data:?}");
    let order = |set: &[&str], epoch: u32| {
        let plan = workspace.plan_in("mixed.toml", "run", &[&[path.as_str()][..], set].concat());
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

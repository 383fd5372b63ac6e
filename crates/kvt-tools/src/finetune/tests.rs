#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, TensorData};
use fs_err as fs;
use image::RgbImage;
use kvt_models::weights::{StateDict, write};
use kvt_models::{ModelConfig, ModelOverrides};
use kvt_ops::Key;
use tempfile::TempDir;

use super::*;
use kvt_train::task::{Freeze, ResetHead};

/// A folder `photos` with images of three classes, and weights without metadata.
fn workspace(weights: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for class in ["a", "b", "c"] {
        images(&folder.path().join("photos").join(class), 5);
    }
    let overrides = ModelOverrides {
        num_classes: Some(2),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    let model = config
        .with(&overrides)
        .unwrap()
        .init(&Device::flex(), Key::new(1));
    let state = StateDict::from_model(&model.unwrap()).unwrap();
    write(&folder.path().join(weights), &state, &Default::default()).unwrap();
    folder
}

fn images(folder: &Path, count: usize) {
    fs::create_dir_all(folder).unwrap();
    for index in 0..count {
        RgbImage::new(8, 8)
            .save(folder.join(format!("{index}.png")))
            .unwrap();
    }
}

fn request(folder: &TempDir, weights: &str) -> Request {
    Request {
        folder: folder.path().join("photos"),
        weights: Some(folder.path().join(weights)),
        ..Request::default()
    }
}

/// The output of `kvt config init` is the plan that `kvt finetune` uses.
#[test]
fn the_text_is_the_plan() {
    let folder = workspace("w.safetensors");
    let mut request = request(&folder, "w.safetensors");
    for weights in [request.weights.clone(), None] {
        request.weights = weights;
        let proposal = propose(&request).unwrap();
        let document = Document::from_text(Path::new("photos.toml"), proposal.text.clone(), &[]);
        assert_eq!(document.unwrap().plan().unwrap(), proposal.plan);
        let text = &proposal.text;
        let meaning = "# Times that training goes through the data.\nepochs = ";
        assert!(text.contains(meaning), "{text}");
        assert_eq!(
            text.contains("[init]\n"),
            request.weights.is_some(),
            "{text}"
        );
    }
    request.model = Some("resnet18".to_owned());
    let error = propose(&request).unwrap_err().to_string();
    assert!(error.contains("resnet18"), "{error}");
}

#[test]
fn a_plan_is_complete_and_has_sane_values() {
    let folder = workspace("w.safetensors");
    let Proposal { plan, notes, .. } = propose(&request(&folder, "w.safetensors")).unwrap();
    assert_eq!(plan.model.name, "deit_tiny_patch16_224");
    assert_eq!(plan.model.overrides.num_classes, None);
    assert_eq!(plan.init.reset_head, ResetHead::Always);
    assert_eq!(plan.init.freeze, Freeze::None);
    assert_eq!(plan.augment.mean, [0.485, 0.456, 0.406]);
    // Four fifths of 15 images.
    assert_eq!((plan.train.epochs, plan.train.batch_size), (50, 2));
    assert_eq!(plan.run.dir, Path::new("runs/finetune/photos"));
    assert_eq!(plan.data.path, folder.path().join("photos"));
    let notes = notes.join("\n");
    for words in [
        "by the shapes of its weights",
        "trained for 2 classes",
        "ImageNet's mean and std",
        "3 classes, 12 images",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    // The configuration file of a run gives the same plan.
    let text = kvt_train::config::resolved_toml(&plan).unwrap();
    let again = Document::from_text(Path::new("x.toml"), text, &[]).unwrap();
    assert_eq!(again.plan().unwrap(), plan);
}

#[test]
fn what_is_chosen_stands_in_for_the_recipe() {
    let folder = workspace("w.safetensors");
    let plan = |probe, choices| {
        let request = Request {
            probe,
            choices,
            ..request(&folder, "w.safetensors")
        };
        propose(&request).unwrap().plan
    };
    let chosen = plan(
        false,
        Choices {
            epochs: Some(7),
            lr: Some(0.25),
            batch_size: Some(3),
            img_size: Some(ImgSize::from([64, 96])),
            out: Some("a \"b\"".into()),
            set: vec!["model.drop_path=0.5".to_owned()],
        },
    );
    assert_eq!((chosen.train.epochs, chosen.train.batch_size), (7, 3));
    assert_eq!((chosen.optim.lr, chosen.optim.lr_batch), (0.25, 0));
    assert_eq!(chosen.schedule.warmup_epochs, 0.7);
    let size = ImgSize::from([64, 96]);
    assert_eq!(chosen.model.overrides.img_size, Some(size));
    assert_eq!(chosen.model.overrides.drop_path, Some(0.5));
    assert_eq!(chosen.run.dir, Path::new("a \"b\""));

    // The same epochs set by their key, and a warm-up chosen by the user.
    let set = |set: &[&str]| {
        let set = set.iter().map(|&set| set.to_owned()).collect();
        let choices = Choices {
            set,
            ..Choices::default()
        };
        plan(false, choices)
    };
    let by_key = set(&["train.epochs = 7"]);
    assert_eq!(
        (by_key.train.epochs, by_key.schedule.warmup_epochs),
        (7, 0.7)
    );
    let both = set(&["schedule.warmup_epochs=2.0", "train.epochs=7"]);
    assert_eq!((both.train.epochs, both.schedule.warmup_epochs), (7, 2.0));

    let probe = plan(true, Choices::default());
    assert_eq!(probe.init.freeze, Freeze::Backbone);
    assert_eq!(probe.optim.weight_decay, 0.0);
    assert_eq!(probe.model.overrides.drop_path, Some(0.0));
}

#[test]
fn low_rank_adaptation_has_ten_times_the_rate() {
    let folder = workspace("w.safetensors");
    let plan = |lora| {
        let request = Request {
            lora,
            ..request(&folder, "w.safetensors")
        };
        let Proposal { plan, notes, .. } = propose(&request).unwrap();
        (plan, notes.join("\n"))
    };
    let ((whole, _), (adapted, notes)) = (plan(None), plan(Some(4)));
    assert_eq!((whole.lora.rank, adapted.lora.rank), (0, 4));
    assert_eq!(adapted.lora.alpha, 8.0);
    assert!((adapted.optim.lr - 10.0 * whole.optim.lr).abs() < 1e-9);
    assert_eq!(
        (adapted.optim.layer_decay, adapted.optim.weight_decay),
        (1.0, 0.0)
    );
    assert!(
        notes.contains("the head, and factors of rank 4 (LoRA)"),
        "{notes}"
    );
}

#[test]
fn timms_names_tell_the_normalisation() {
    for (file, model, half) in [
        ("vit_tiny_patch16_224.augreg_in21k.safetensors", None, true),
        ("vit_tiny_patch16_224.dino.safetensors", None, false),
        ("w.safetensors", Some("vit_tiny_patch16_224"), true),
        (
            "w.safetensors",
            Some("vit_tiny_patch16_224.augreg_in21k"),
            true,
        ),
        ("w.safetensors", Some("deit_tiny_patch16_224"), false),
    ] {
        let folder = workspace(file);
        let request = Request {
            model: model.map(str::to_owned),
            ..request(&folder, file)
        };
        let plan = propose(&request).unwrap().plan;
        let expected = if half {
            (vec![0.5; 3], 0.9)
        } else {
            (vec![0.485, 0.456, 0.406], 0.9)
        };
        assert_eq!(
            (plan.augment.mean, plan.augment.crop_pct),
            expected,
            "{file} {model:?}"
        );
    }
}

/// timm's `pretrained_cfg` of these weights, without a description beside them.
#[test]
fn each_source_of_weights_has_its_own_normalisation() {
    let clip = [0.48145466, 0.4578275, 0.40821073];
    for (name, mean) in [
        (
            "vit_small_patch14_reg4_dinov2.lvd142m",
            [0.485, 0.456, 0.406],
        ),
        ("vit_large_patch16_dinov3.sat493m", [0.43, 0.411, 0.296]),
        ("vit_base_patch16_clip_224.openai", clip),
        ("vit_large_patch14_clip_224.laion2b", [0.5; 3]),
        ("vit_base_patch16_siglip_224.v2_webli", [0.5; 3]),
    ] {
        // A file that is called something else, whose shapes tell the model.
        let names = ["weights", name];
        let (keys, _) = super::timm::normalisation(&super::timm::TimmConfig::default(), names);
        let found = keys["mean"].as_array().unwrap().iter();
        let found: Vec<f64> = found.map(|x| x.as_float().unwrap()).collect();
        assert_eq!(found, mean, "{name}");
    }
}

#[test]
fn what_lies_beside_the_weights_is_believed() {
    let folder = workspace("model.safetensors");
    let config = r#"{"architecture": "vit_tiny_patch16_224", "pretrained_cfg":
        {"mean": [0.1, 0.2, 0.3], "std": [1.0, 2, 3], "crop_pct": 1.0, "interpolation": "bilinear"}}"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    let plan = propose(&request(&folder, "model.safetensors"))
        .unwrap()
        .plan;
    assert_eq!(plan.model.name, "vit_tiny_patch16_224");
    assert_eq!(plan.augment.mean, [0.1, 0.2, 0.3]);
    assert_eq!(plan.augment.std, [1.0, 2.0, 3.0]);
    assert_eq!(plan.augment.crop_pct, 1.0);

    // With the mark of an editor; one that nothing can read.
    let planned = |config: &[u8]| {
        fs::write(folder.path().join("config.json"), config).unwrap();
        let proposal = propose(&request(&folder, "model.safetensors"));
        proposal
            .map(|proposal| proposal.plan.augment.mean)
            .map_err(|error| error.to_string())
    };
    let marked = [b"\xef\xbb\xbf", config.as_bytes()].concat();
    assert_eq!(planned(&marked).unwrap(), [0.1, 0.2, 0.3]);
    for (text, reason) in [
        (&b"{\"mean\": "[..], "is not JSON"),
        (b"\xff\xfe{\0}\0", "UTF-16"),
    ] {
        let error = planned(text).unwrap_err();
        assert!(
            error.contains("config.json") && error.contains(reason),
            "{error}"
        );
    }

    // A file that is not timm's is ignored.
    fs::write(folder.path().join("config.json"), "[1, 2]").unwrap();
    let plan = propose(&request(&folder, "model.safetensors"))
        .unwrap()
        .plan;
    assert_eq!(plan.model.name, "deit_tiny_patch16_224");

    // The metadata of the weights.
    let file = folder.path().join("model.safetensors");
    let state = kvt_models::weights::read(&file).unwrap();
    let metadata = [("mean", "[0.5, 0.5, 0.5]"), ("std", "[0.25, 0.5, 0.5]")]
        .map(|(key, text)| (key.to_owned(), text.to_owned()));
    write(&file, &state, &metadata.into_iter().collect()).unwrap();
    let plan = propose(&request(&folder, "model.safetensors"))
        .unwrap()
        .plan;
    assert_eq!(plan.augment.std, [0.25, 0.5, 0.5]);
}

/// DINO's `main_dino.py` writes both of its networks, the student wrapped for several processes.
#[test]
fn of_dino_the_backbone_of_the_teacher_is_taken() {
    let folder = workspace("w.safetensors");
    let bare = kvt_models::weights::read(&folder.path().join("w.safetensors")).unwrap();
    let part = |prefix: &str, scale: f32| {
        let backbone = bare.iter().filter(|(name, _)| !name.starts_with("head."));
        let scaled = backbone.map(move |(name, data)| {
            let numbers = data.try_to_vec::<f32>().unwrap();
            let numbers: Vec<f32> = numbers.iter().map(|x| scale * x).collect();
            let data = TensorData::new(numbers, data.shape().to_vec());
            (format!("{prefix}backbone.{name}"), data)
        });
        let head = TensorData::new(vec![0.0f32; 4], [2, 2]);
        let head = (format!("{prefix}head.last_layer.weight_v"), head);
        scaled.chain([head]).collect::<Vec<_>>()
    };
    let teacher = part("", 0.5);
    for (file, weights) in [
        ("bare", teacher.clone()),
        ("teacher", part("teacher.", 0.5)),
        (
            "full",
            [part("student.module.", 2.0), part("teacher.", 0.5)].concat(),
        ),
    ] {
        let file = format!("{file}.safetensors");
        let path = folder.path().join(&file);
        write(&path, &weights.into_iter().collect(), &Default::default()).unwrap();
        let plan = propose(&request(&folder, &file)).unwrap().plan;
        assert_eq!(plan.model.name, "deit_tiny_patch16_224", "{file}");
        let read = kvt_train::task::read_weights(&path).unwrap();
        assert_eq!(read.len(), teacher.len() - 1, "{file}");
        for (name, data) in read.iter() {
            let expected = teacher
                .iter()
                .find(|(of, _)| *of == format!("backbone.{name}"));
            assert_eq!(data, &expected.unwrap().1, "{file}: {name}");
        }
    }
}

fn of(photos: &Path, set: &[&str]) -> Images {
    let choices = Choices {
        set: set.iter().map(|&set| set.to_owned()).collect(),
        ..Choices::default()
    };
    Images::of(photos, &choices.document().unwrap()).unwrap()
}

/// A table divides the images, or a fraction of each class is kept.
#[test]
fn labels_are_those_of_a_table() {
    let folder = workspace("w.safetensors");
    let photos = folder.path().join("photos");
    let mut rows = Vec::new();
    for (class, label) in [("a", "x"), ("b", "y")] {
        for entry in fs_err::read_dir(photos.join(class)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            rows.push(format!("{class}/{name},{label}"));
        }
    }
    let table = format!("path,label\n{}\n", rows.join("\n"));
    fs_err::write(photos.join("labels.csv"), table).unwrap();
    let found = of(&photos, &["data.labels=labels.csv"]);
    let keys = found.keys().unwrap();
    assert_eq!(keys["labels"].as_str(), Some("labels.csv"));
    assert_eq!(keys["val_fraction"].as_float(), Some(0.2));
    assert!(found.classes == 2 && found.train < rows.len(), "{found:?}");

    let split = rows.iter().enumerate().map(|(n, row)| {
        let split = if n % 2 == 0 { "train" } else { "val" };
        format!("{row},{split}\n")
    });
    let table = format!("path,label,split\n{}", split.collect::<String>());
    fs_err::write(photos.join("labels.csv"), table).unwrap();
    let found = of(&photos, &["data.labels=labels.csv"]);
    assert_eq!(found.train, rows.len().div_ceil(2));
    assert!(!found.keys().unwrap().contains_key("val_fraction"));
    assert!(
        found.describe().ends_with(", divided by `labels.csv`"),
        "{}",
        found.describe()
    );
}

/// A table with another name counts if it is the only one; of several none does, and the user is told which there are.
#[test]
fn a_table_of_labels_is_found() {
    let folder = workspace("w.safetensors");
    let classes = folder.path().join("photos");
    let photos = folder.path().join("flat");
    fs_err::create_dir_all(photos.join("images")).unwrap();
    for name in ["a/0", "a/1", "b/0", "b/1"] {
        let flat = format!("images/{}.png", name.replace('/', ""));
        fs_err::copy(classes.join(format!("{name}.png")), photos.join(flat)).unwrap();
    }
    let table = "path,label\nimages/a0.png,x\nimages/a1.png,x\nimages/b0.png,y\nimages/b1.png,y\n";
    let write = |name: &str| fs_err::write(photos.join(name), table).unwrap();
    // Folders of classes are not replaced by a list that is beside them.
    let part = "path,label\na/0.png,x\na/1.png,y\n";
    fs_err::write(classes.join("labels.csv"), part).unwrap();
    let found = of(&classes, &[]);
    assert!(!found.keys().unwrap().contains_key("labels"));
    let found = found.describe();
    assert!(
        found.ends_with("; `data.labels` can name one of `labels.csv`"),
        "{found}"
    );
    let labels = |set: &[&str]| {
        let keys = of(&photos, set).keys().unwrap();
        keys.get("labels")
            .map(|labels| labels.as_str().unwrap().to_owned())
    };
    write("names.csv");
    assert_eq!(labels(&[]).as_deref(), Some("names.csv"));
    let found = of(&photos, &[]).describe();
    let expected = "`, labels of `names.csv`: 2 classes, 2 images";
    assert!(found.contains(expected), "{found}");
    write("more.csv");
    let several = Images::of(&photos, &Choices::default().document().unwrap());
    let said = several.unwrap_err().to_string();
    let tables = "several tables of labels, `more.csv` and `names.csv`: choose with";
    assert!(said.contains(tables), "{said}");
    write("labels.csv");
    assert_eq!(labels(&[]).as_deref(), Some("labels.csv"));
    // What is wrong with folders of classes is told, not which tables are beside them.
    fs_err::rename(classes.join("labels.csv"), classes.join("one.csv")).unwrap();
    fs_err::write(classes.join("two.csv"), part).unwrap();
    fs_err::create_dir(classes.join("empty")).unwrap();
    let empty = Images::of(&classes, &Choices::default().document().unwrap());
    let said = empty.unwrap_err().to_string();
    assert!(said.contains("photos/empty` has no image"), "{said}");
}

/// The recipe has an augmentation that images with alpha cannot have, and the error says how to leave it out.
#[test]
fn images_with_alpha_need_another_augmentation() {
    let folder = workspace("w.safetensors");
    let mut request = request(&folder, "w.safetensors");
    request.choices.set = vec!["model.in_chans=4".to_owned()];
    let error = propose(&request).unwrap_err().to_string();
    assert!(error.contains("`--set augment.auto=`"), "{error}");
    request.choices.set.push("augment.auto=".to_owned());
    let plan = propose(&request).unwrap().plan;
    assert_eq!(plan.augment.channels(), 4);
}

#[test]
fn folders_are_splits_where_classes_are_in_them() {
    let folder = workspace("w.safetensors");
    let photos = folder.path().join("photos");
    let chosen = of;
    let of = |photos: &Path| chosen(photos, &[]);
    assert_eq!(
        of(&photos).keys().unwrap()["val_fraction"].as_float(),
        Some(0.2)
    );

    let half = chosen(&photos, &["data.val_fraction=0.5"]);
    assert_eq!(half.train, 6);
    assert!(
        half.describe()
            .ends_with(", 50 % of each class are kept for validation")
    );

    // The recipe depends on the number of training images.
    let few = chosen(&photos, &["data.subset=4"]);
    assert_eq!(few.train, 4);
    assert!(few.describe().contains(" 4 images to train on"));

    // A class called `train`.
    images(&photos.join("train"), 5);
    assert_eq!(
        (of(&photos).train, of(&photos).data.path),
        (16, photos.clone())
    );

    let split = folder.path().join("split");
    for class in ["a", "b"] {
        images(&split.join("train").join(class), 4);
    }
    let only_train = of(&split);
    assert_eq!(
        (only_train.train, only_train.data.path),
        (6, split.join("train"))
    );
    for class in ["a", "b"] {
        images(&split.join("test").join(class), 1);
    }
    let both = of(&split);
    assert_eq!((both.train, &both.data.path), (8, &split));
    let keys = both.keys().unwrap();
    assert_eq!(
        (keys["train"].as_str(), keys["val"].as_str()),
        (Some("train"), Some("test"))
    );
    let words =
        "validated on those in `test`, which choose the best checkpoint: there are no others";
    assert!(both.describe().ends_with(words), "{}", both.describe());
    for class in ["a", "b"] {
        images(&split.join("dev").join(class), 1);
    }
    assert!(
        of(&split)
            .describe()
            .ends_with("validated on those in `dev`")
    );
}

#[test]
fn every_kind_of_data_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let chosen = of;
    let of = |name: &str| {
        let images = chosen(&at(name), &[]);
        let keys = images.keys().unwrap();
        let text = |key: &str| {
            keys.get(key)
                .map(|value| value.to_string().replace('"', ""))
        };
        let found = ["kind", "path", "train", "val", "val_fraction"].map(text);
        let words = images
            .describe()
            .replace(dir.path().to_str().unwrap(), "DIR");
        (found.map(Option::unwrap_or_default), words)
    };
    let keys = |keys: [&str; 5]| {
        let [kind, path, train, val, share] = keys;
        let path = at(path).to_str().unwrap().to_owned();
        [kind, &path, train, val, share].map(str::to_owned)
    };

    // Shards in splits, in one split, and without splits; an archive next to what was unpacked from it.
    for class in ["a", "b"] {
        images(&at("photos/train").join(class), 5);
        images(&at("photos/val").join(class), 1);
    }
    let split = |name: &str| {
        let source = kvt_data::Source::open(at("photos").join(name), Default::default());
        source.unwrap()
    };
    let (train, val) = (split("train"), split("val"));
    let pack = |splits: &[(&str, &kvt_data::Source)], out: &str| {
        kvt_data::pack(splits, &at(out), 1 << 20, &mut |_| {}).unwrap();
    };
    pack(&[("train", &train), ("valid", &val)], "packed");
    let (found, words) = of("packed");
    assert_eq!(found, keys(["tar", "packed", "train", "valid", ""]));
    insta::assert_snapshot!(words, @"images   `DIR/packed` (tar shards): 2 classes, 10 images to train on, validated on those in `valid`");
    pack(&[("train", &train)], "half");
    let (found, words) = of("half");
    assert_eq!(found, keys(["tar", "half/train", "", "", "0.2"]));
    insta::assert_snapshot!(words, @"images   `DIR/half/train` (tar shards): 2 classes, 8 images to train on, 20 % of each class are kept for validation");
    assert_eq!(of("half/train").0, found);
    fs::copy(at("half/train/000000.tar"), at("photos/train/a.tar")).unwrap();
    let folder = keys(["folder", "photos", "train", "val", ""]);
    assert_eq!(of("photos").0, folder);

    // Parquet files in the layout of a repository on the Hub.
    let hub = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../kvt-data/tests/fixtures/parquet/hub/data"
    );
    fs::create_dir_all(at("hub/data")).unwrap();
    for entry in fs::read_dir(hub).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, at("hub/data").join(path.file_name().unwrap())).unwrap();
    }
    let (found, words) = of("hub");
    assert_eq!(found, keys(["parquet", "hub", "train", "validation", ""]));
    insta::assert_snapshot!(words, @"images   `DIR/hub` (Parquet): 3 classes, 22 images to train on, validated on those in `validation`");
    fs::remove_file(at("hub/data/validation-00000-of-00001.parquet")).unwrap();
    assert_eq!(of("hub").0, keys(["parquet", "hub", "", "", "0.2"]));

    // CIFAR-10: a record is a label and 3,072 levels.
    fs::create_dir(at("cifar")).unwrap();
    fs::write(at("cifar/batches.meta.txt"), "plane\ncar\n").unwrap();
    let files = (1..=5).map(|n| format!("data_batch_{n}.bin"));
    for file in files.chain(["test_batch.bin".to_owned()]) {
        fs::write(at("cifar").join(file), vec![1_u8; 2 * 3073]).unwrap();
    }
    let (found, words) = of("cifar");
    assert_eq!(found, keys(["cifar", "cifar", "", "", ""]));
    insta::assert_snapshot!(words, @"images   `DIR/cifar` (CIFAR): 2 classes, 10 images to train on, validated on its test images");
}

#[test]
fn what_cannot_be_used_says_what_to_do() {
    let folder = workspace("w.safetensors");
    let error = |request: &Request| {
        let error = propose(request).unwrap_err();
        let error: &dyn std::error::Error = &error;
        let cause = error
            .source()
            .map_or_else(String::new, |cause| format!(": {cause}"));
        let text = format!("{error}{cause}");
        text.replace(folder.path().to_str().unwrap(), "DIR")
    };
    let right = request(&folder, "w.safetensors");

    let gone = Request {
        weights: Some("gone.pth".into()),
        ..right.clone()
    };
    assert!(error(&gone).starts_with("no weights `gone.pth`: give a `.safetensors`"));
    let no_run = Request {
        weights: Some(right.folder.clone()),
        ..right.clone()
    };
    insta::assert_snapshot!(error(&no_run), @"`DIR/photos` holds no run: it has no `config.toml`");
    let no_folder = Request {
        folder: "gone".into(),
        ..right.clone()
    };
    insta::assert_snapshot!(error(&no_folder), @"no folder `gone`: expected an image folder `gone/<class>/*.jpg`");
    let flat = Request {
        folder: right.folder.join("a"),
        ..right.clone()
    };
    assert!(error(&flat).contains("holds images but no class folders"));
    let wrong = Request {
        model: Some("deit_tinny".to_owned()),
        ..right.clone()
    };
    assert!(
        error(&wrong).contains("did you mean `deit_tiny"),
        "{}",
        error(&wrong)
    );

    let state = kvt_models::weights::read(right.weights.as_deref().unwrap()).unwrap();
    let save = |name: &str, state: StateDict| {
        let file = folder.path().join(name);
        write(&file, &state, &Default::default()).unwrap();
        Request {
            weights: Some(file),
            ..right.clone()
        }
    };
    let unknown =
        StateDict::from_iter([("conv1.weight".to_owned(), TensorData::zeros::<f32, _>([2]))]);
    let unknown = error(&save("unknown.safetensors", unknown));
    assert!(
        unknown.contains(
            "no model that kvt knows (the first is `conv1.weight`): those of `kvt models list`"
        ),
        "{unknown}"
    );
    let custom = state
        .clone()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("blocks.11."));
    let custom = error(&save("custom.safetensors", custom.collect()));
    assert!(custom.contains("a ViT of a custom size"), "{custom}");
    let model = "`--model deit_tiny_patch16_224 --set model.depth=6`";
    assert!(custom.contains(model), "{custom}");
    let mut mixture = state.clone();
    for name in ["reg_token", "blocks.0.attn.q_norm.weight"] {
        mixture.insert(name, TensorData::zeros::<f32, _>([1, 1, 192]));
    }
    let mixture = error(&save("mixture.safetensors", mixture));
    let parts = "with register tokens, that normalises queries and keys: no model of `kvt models list` has these parts together";
    assert!(mixture.contains(parts), "{mixture}");
    let mut variant = state;
    variant.insert("decoder_pos_embed", TensorData::zeros::<f32, _>([192]));
    insta::assert_snapshot!(error(&save("variant.safetensors", variant)), @"could not use the weights in `DIR/variant.safetensors`: `decoder_pos_embed` identifies the weights as those of a model with a decoder, as masked auto-encoders have it before fine-tuning: kvt does not have that model");
}

/// The images are counted before there is a plan: counting needs the column.
#[test]
fn labels_may_be_in_another_column() {
    let folder = workspace("w.safetensors");
    let plain = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../kvt-data/tests/fixtures/parquet/plain.parquet"
    );
    let mut bytes = fs::read(plain).unwrap();
    while let Some(at) = bytes.windows(5).position(|part| part == b"label") {
        bytes[at..at + 5].copy_from_slice(b"breed");
    }
    let table = folder.path().join("table");
    fs::create_dir(&table).unwrap();
    for split in ["train", "val"] {
        fs::write(table.join(format!("{split}-0.parquet")), &bytes).unwrap();
    }
    let mut request = Request {
        folder: table.clone(),
        ..request(&folder, "w.safetensors")
    };
    let error = propose(&request).unwrap_err().to_string();
    assert!(error.contains("`data.label_column`; there are"), "{error}");
    request.choices.set = vec!["data.label_column=breed".to_owned()];
    let Proposal { plan, notes, .. } = propose(&request).unwrap();
    assert_eq!(plan.data.label_column, "breed");
    assert!(
        notes[notes.len() - 2].contains("3 classes, 12 images"),
        "{notes:?}"
    );

    // A resumed run has the column in its configuration.
    let choices = Choices {
        out: Some("gone".into()),
        ..Choices::default()
    };
    let error = resume(Some(&table), &choices).unwrap_err().to_string();
    assert!(error.starts_with("`gone` holds no run"), "{error}");
}

/// A configuration cannot represent the name: the run would be in another folder.
#[cfg(unix)]
#[test]
fn the_folder_of_a_run_is_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = workspace("w.safetensors");
    let mut request = request(&folder, "w.safetensors");
    request.choices.out = Some(OsStr::from_bytes(b"run-\xff").into());
    let error = propose(&request).unwrap_err();
    assert!(matches!(error, FinetuneError::NotUtf8(_)), "{error}");
}

#[test]
fn there_is_no_run_to_go_on_with() {
    let error = |folder: Option<&Path>, out: Option<&str>| {
        let choices = Choices {
            out: out.map(PathBuf::from),
            ..Choices::default()
        };
        resume(folder, &choices).unwrap_err().to_string()
    };
    assert!(error(None, None).contains("`--out`"));
    assert_eq!(
        error(None, Some("gone")),
        "`gone` holds no run: it has no `config.toml`"
    );
}

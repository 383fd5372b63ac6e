//! DINO trains a backbone of every family: one update with two global views and a smaller local one.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::Network;
use kvt_models::weights::StateDict;
use kvt_ops::Key;
use kvt_train::config::load_plan;
use kvt_train::data::DeviceBatch;
use kvt_train::engine::{TrainState, UpdateSettings};
use kvt_train::recipe::{Optimizer, Position, Rates};
use kvt_train::task::{Dino, DinoNetwork, build_model};

use crate::support::Workspace;

const KEYS: [&str; 10] = [
    "task=dino",
    "data.path=data",
    "model.img_size=32",
    "model.attention.kind=knn",
    "model.attention.neighbors=0.5",
    "dino.out_dim=12",
    "dino.hidden_dim=20",
    "dino.bottleneck_dim=8",
    "dino.local_views=1",
    "dino.momentum_teacher=0.5",
];
/// Sides of global and local views.
const SIDES: [usize; 2] = [32, 16];
const IMAGES: usize = 2;

#[test]
fn deit() {
    learns(&[], false);
}

#[test]
fn swin() {
    let model = [
        "model.name=swin_tiny_patch4_window7_224",
        "model.patch_size=2",
    ];
    learns(&model, false);
}

#[test]
fn pit() {
    learns(&["model.name=pit_ti_224", "model.patch_stride=2"], false);
}

#[test]
fn cvt() {
    learns(&["model.name=cvt_13", "model.patch_stride=2"], true);
}

#[test]
fn tnt() {
    let model = [
        "model.name=tnt_s_patch16_224",
        "model.inner_dim=8",
        "model.inner_num_heads=2",
    ];
    learns(&model, false);
}

#[test]
fn visformer() {
    let model = ["model.name=visformer_tiny", "model.strides=[0,2,2,2]"];
    learns(&model, true);
}

#[test]
fn so_vit() {
    learns(&["model.name=so_vit_7", "model.strides=[2,1,1]"], true);
}

#[test]
fn t2t() {
    learns(&["model.name=t2t_vit_7", "model.strides=[2,2,1]"], false);
}

#[test]
fn twins() {
    let model = [
        "model.name=twins_svt_small",
        "model.depth=[2,1]",
        "model.window_size=4",
        "model.strides=[2,2]",
        "model.sr_ratio=[2,1]",
    ];
    learns(&model, false);
}

#[test]
fn volo() {
    let model = [
        "model.name=volo_d1_224",
        "model.strides=[1,2]",
        "model.stem_dim=8",
        "model.depth=[1,1,1]",
    ];
    learns(&model, true);
}

/// One update of a tiny model: the loss is finite, the student moves, and the teacher goes half of its way, with the running
/// statistics of batch norms if the backbone has any (`has_norms`).
fn learns(model: &[&str], has_norms: bool) {
    let workspace = Workspace::empty();
    // Some families have no single patch size.
    if model.iter().any(|set| set.starts_with("model.strides")) {
        let tiny = workspace.read("tiny.toml");
        workspace.write("tiny.toml", tiny.replace("patch_size = 4\n", ""));
    }
    let mut keys: Vec<String> = KEYS
        .iter()
        .chain(model)
        .map(|&key| key.to_owned())
        .collect();
    keys.push(format!("dino.local_size={}", SIDES[1]));
    let plan = load_plan(&workspace.path("tiny.toml"), &keys).unwrap();
    let device = Device::flex().autodiff();
    let config = plan.model.config(Some(1)).unwrap();
    let model = build_model(&plan, &config, &device).unwrap();
    model.check_size([SIDES[1]; 2]).unwrap();
    let network = DinoNetwork::new(model, &plan.dino, &device, Key::new(0));
    let start = network.state_dict().unwrap();
    let task = Dino::new(plan.dino.clone(), &network, &device, 10);
    let mut state = TrainState {
        loss_scale: None,
        optimizer: Optimizer::new(&plan.optim, &network),
        ema: None,
        task,
        network,
    };
    let view = |(number, side): (usize, usize)| {
        let shape = [IMAGES, 3, side, side];
        let value = |i: usize| ((i * 7919 + number * 104_729) % 1009) as f32 / 504.5 - 1.0;
        let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
        Tensor::<4>::from_data(TensorData::new(values, shape), &device)
    };
    let batch = DeviceBatch {
        views: [SIDES[0], SIDES[0], SIDES[1]]
            .into_iter()
            .enumerate()
            .map(view)
            .collect(),
        targets: vec![(); IMAGES],
        indices: (0..IMAGES as u32).collect(),
    };
    let settings = UpdateSettings {
        seed: 0,
        rates: Rates {
            lr: 0.01,
            weight_decay: 0.0,
        },
        clip: plan.optim.clip(),
        ema_decay: 0.0,
    };
    let update = state.update([Ok(batch)], Position::default(), settings);
    let loss = update.unwrap().loss;
    // A cross-entropy.
    assert!(loss.is_finite() && loss > 0.0, "{loss}");

    let student = state.network.state_dict().unwrap();
    let teacher = state.task.teacher().state_dict().unwrap();
    let mut moved: Vec<&str> = Vec::new();
    for (name, _) in teacher.iter() {
        let values = |state: &StateDict| -> Vec<f64> {
            let data = state.get(name).unwrap();
            data.iter::<f64>().collect()
        };
        let [start, student, teacher] = [&start, &student, &teacher].map(values);
        if start != student {
            moved.push(name);
        }
        for ((start, student), teacher) in start.iter().zip(student).zip(teacher) {
            let expected = 0.5 * start + 0.5 * student;
            let error = (teacher - expected).abs();
            assert!(
                error <= 1e-6 * expected.abs().max(1.0),
                "{name}: {teacher} instead of {expected}"
            );
        }
    }
    // The last layer is not trained in the first epoch.
    assert!(!moved.iter().any(|name| name.starts_with("head.last_layer")));
    assert!(2 * moved.len() > teacher.iter().count(), "{moved:?}");
    let norms = moved.iter().any(|name| name.ends_with(".running_mean"));
    assert_eq!(norms, has_norms, "{moved:?}");
}

//! Training of models with an output for every token: MixToken and the token loss, against sums by hand.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::{Ask, Logits, Model};
use kvt_ops::Key;
use kvt_ops::Phase;
use kvt_train::config::{Plan, load_plan};
use kvt_train::data::DeviceBatch;
use kvt_train::recipe::Position;
use kvt_train::recipe::mix::{Rect, draw_tokens};
use kvt_train::task::{Classify, Task, build_model};

use crate::support::{Workspace, assert_each_close};

const VOLO: &str = r#"
[model]
name = "volo_d1_224"
img_size = 24
strides = [1, 2]
stem_dim = 4
embed_dim = [8, 12]
depth = [1, 1]
num_heads = [2, 3]
num_classes = 4

[data]
kind = "shapes"

[mix]
mix_token = 1.0
off_epoch = 3

[loss]
token_weight = 0.5
label_smoothing = 0.2

[train]
device = "cpu"
"#;

const LABELS: [u32; 4] = [2, 0, 3, 1];
const CLASSES: usize = 4;
/// Tokens along a side of the coarse map.
const SIDE: usize = 6;
const AT: Position = Position {
    epoch: 1,
    batch: 0,
    step: 0,
};

fn plan(set: &[&str]) -> Plan {
    let workspace = Workspace::empty();
    workspace.write("volo.toml", VOLO);
    let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
    load_plan(&workspace.path("volo.toml"), &set).unwrap()
}

fn model(plan: &Plan) -> Model {
    let config = plan.model.config(None).unwrap();
    build_model(plan, &config, &Device::flex().autodiff()).unwrap()
}

fn images() -> Tensor<4> {
    let pixels: Vec<f32> = (0..4 * 3 * 24 * 24)
        .map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0)
        .collect();
    let pixels = TensorData::new(pixels, [4, 3, 24, 24]);
    Tensor::from_data(pixels, &Device::flex().autodiff())
}

/// The task's loss of a micro-batch.
fn loss(plan: &Plan, model: &Model, phase: Phase, at: Position) -> f64 {
    let batch = DeviceBatch {
        views: vec![images()],
        targets: LABELS.to_vec(),
        indices: vec![0, 1, 2, 3],
    };
    let loss = Classify::new(plan, None).loss(model, batch, at, phase);
    f64::from(loss.unwrap().into_scalar::<f32>())
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let values: Vec<f32> = tensor.into_data().try_to_vec().unwrap();
    values.into_iter().map(f64::from).collect()
}

fn target(image: usize) -> [f64; CLASSES] {
    let mut target = [0.2 / 4.0; CLASSES];
    target[LABELS[image] as usize] += 0.8;
    target
}

/// The cross-entropy of a row of logits.
fn cross_entropy(logits: &[f64], target: [f64; CLASSES]) -> f64 {
    let sum: f64 = logits.iter().map(|x| x.exp()).sum();
    let terms = logits.iter().zip(target);
    terms.map(|(x, t)| t * (sum.ln() - x)).sum()
}

/// The logits with the tokens of a rectangle of the coarse map exchanged on the host, one by one.
fn mixed(model: &Model, rect: Rect, phase: Phase) -> Logits {
    let within = |at: usize, start: usize, length: usize| (start..start + length).contains(&at);
    let mix = |tokens: Tensor<3>, [rows, columns]: [usize; 2]| {
        let [batch, count, width] = tokens.dims();
        assert_eq!([rows, columns], [2 * SIDE; 2]);
        let device = tokens.device();
        let numbers: Vec<f32> = tokens.into_data().try_to_vec().unwrap();
        let token = |image: usize, token: usize| {
            let (row, column) = (token / columns / 2, token % columns / 2);
            let exchanged =
                within(row, rect.top, rect.height) && within(column, rect.left, rect.width);
            let from = if exchanged { batch - 1 - image } else { image };
            let start = (from * count + token) * width;
            numbers[start..start + width].to_vec()
        };
        let places = (0..batch).flat_map(|image| (0..count).map(move |at| (image, at)));
        let numbers: Vec<f32> = places.flat_map(|(image, at)| token(image, at)).collect();
        Tensor::from_data(TensorData::new(numbers, [batch, count, width]), &device)
    };
    let ask = Ask {
        mix: Some(&mix),
        ..Ask::default()
    };
    model.forward_asked(images(), &ask, phase)
}

/// The class output learns both targets, weighted by the share of tokens; a token learns the target of the image that it came
/// from.
fn expected(heads: Logits, rect: Rect, token_weight: f64) -> f64 {
    let (class, aux) = (values(heads.class), values(heads.aux.unwrap()));
    let tokens = SIDE * SIDE;
    let other = (rect.height * rect.width) as f64 / tokens as f64;
    let mut total = 0.0;
    for image in 0..4 {
        let logits = &class[image * CLASSES..(image + 1) * CLASSES];
        total += (1.0 - other) * cross_entropy(logits, target(image)) / 4.0;
        total += other * cross_entropy(logits, target(3 - image)) / 4.0;
        for token in 0..tokens {
            let start = (image * tokens + token) * CLASSES;
            let (row, column) = (token / SIDE, token % SIDE);
            let exchanged = (rect.top..rect.top + rect.height).contains(&row)
                && (rect.left..rect.left + rect.width).contains(&column);
            let from = if exchanged { 3 - image } else { image };
            let loss = cross_entropy(&aux[start..start + CLASSES], target(from));
            total += token_weight * loss / (4 * tokens) as f64;
        }
    }
    total
}

#[test]
fn tokens_and_images_learn_what_was_mixed() {
    let mut areas = Vec::new();
    for key in 0..6 {
        let phase = Phase::Train(Key::new(key));
        for (set, weight) in [("loss.token_weight=0.5", 0.5), ("loss.token_weight=0", 0.0)] {
            let plan = plan(&[set]);
            let model = model(&plan);
            let key = Key::new(key).named("mix_token");
            let rect = draw_tokens(&plan.mix, (SIDE, SIDE), key);
            let heads = mixed(&model, rect, phase);
            let expected = expected(heads, rect, weight);
            assert_each_close("loss", &[loss(&plan, &model, phase, AT)], &[expected], 1e-5);
            areas.push(rect.area());
        }
    }
    assert!(
        areas.iter().filter(|area| (1..36).contains(*area)).count() >= 4,
        "{areas:?}"
    );
}

/// In evaluation, without the key, and from `off_epoch` on.
#[test]
fn nothing_is_mixed_where_it_is_off() {
    let nothing = Rect {
        top: 0,
        left: 0,
        height: 0,
        width: 0,
    };
    let train = Phase::Train(Key::new(1));
    let late = Position { epoch: 3, ..AT };
    for (set, phase, at) in [
        ("mix.mix_token=1", Phase::Eval, AT),
        ("mix.mix_token=1", train, late),
        ("mix.mix_token=0", train, AT),
        ("mix.prob=0", train, AT),
    ] {
        let plan = plan(&[set]);
        let model = model(&plan);
        let expected = expected(mixed(&model, nothing, phase), nothing, 0.5);
        assert_each_close(set, &[loss(&plan, &model, phase, at)], &[expected], 1e-5);
    }
}

/// Without token labels either both outputs are trained together, as they predict, or only the class output.
#[test]
fn without_token_labels_the_prediction_learns() {
    let off = ["mix.mix_token=0", "loss.token_weight=0"];
    let phase = Phase::Train(Key::new(1));
    for (heads, with_tokens) in [("mean", true), ("class", false)] {
        let set = format!("loss.heads={heads}");
        let plan = plan(&[off[0], off[1], &set]);
        let model = model(&plan);
        let outputs = model.forward_heads(images(), phase);
        let logits = if with_tokens {
            outputs.mean()
        } else {
            outputs.class
        };
        let logits = values(logits);
        let rows = logits.chunks_exact(CLASSES).enumerate();
        let sum: f64 = rows
            .map(|(i, row)| cross_entropy(row, target(i)) / 4.0)
            .sum();
        assert_each_close(heads, &[loss(&plan, &model, phase, AT)], &[sum], 1e-5);
    }
}

#[test]
fn models_without_outputs_for_tokens_are_refused() {
    let workspace = Workspace::with_data(2, 1);
    for (set, key) in [
        ("mix.mix_token=1", "mix.mix_token"),
        ("loss.token_weight=0.5", "loss.token_weight"),
    ] {
        let run = workspace
            .kvt(&["train", "tiny.toml", "--set", set])
            .assert();
        let error = String::from_utf8(run.failure().get_output().stderr.clone()).unwrap();
        let expected = format!(
            "`{key}` is for models with an output for every token, as VOLO has it, and `deit_16x2_patch4_16` has none: remove it"
        );
        assert!(error.replace('\n', " ").contains(&expected), "{error}");
    }
}

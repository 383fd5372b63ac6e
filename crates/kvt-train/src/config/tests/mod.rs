#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use insta::assert_snapshot;
use tempfile::TempDir;

use super::diff::entries;
use super::reference::sections;
use super::*;

mod keys;
mod lora;
mod mixing;
mod places;
mod ranges;
mod resolved;
mod values;
mod warnings;

const SMALL: &str = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\nkind = \"shapes\"\n";

/// The keys of a file that an older version has resolved (`tests/fixtures/resolved`), most of them with a value other than their default.
/// Newer keys are left out.
const FULL: &str = r#"
seed = 7
[model]
name = "deit_small_patch16_224"
img_size = 32
patch_size = 4
patch_stride = 2
window_size = 3
sr_ratio = [2, 1]
kv_stride = 1
strides = [4, 2]
stem_dim = 16
token_dim = 32
inner_dim = 8
inner_num_heads = 2
inner_stride = 2
embed_dim = [96, 192]
depth = [6, 1]
num_heads = 4
mlp_ratio = 2.0
in_chans = 3
num_classes = 4
qkv_bias = false
drop_path = 0.1
attn_drop = 0.2
cov_dims = [6, 5]
head_drop = 0.25
[model.attention]
kind = "knn"
neighbors = [100, 0.25, 1.0, 1]
selection = "euclidean"
implementation = "gathered"
temperature = 2.0
[model.class_attention]
kind = "knn"
neighbors = 3
[init]
weights = "start.pth"
reset_head = true
reset_mixer = true
freeze = "backbone"
[data]
kind = "shapes"
path = "a \"quoted\" folder"
train = "t"
val = "v"
subset = 30
val_fraction = 0.0
label_column = "fine_label"
class_order = "natural"
shuffle = false
drop_last = false
repeats = 3
replicas = 2
workers = 3
prefetch = 9
cache = 64
decode = "exact"
on_error = "skip"
max_skipped = 5
max_pixels = 1000
check_sizes = false
[data.shapes]
image_size = 48
classes = 4
train_per_class = 20
val_per_class = 10
clutter = 0.0
occlusion = 1.0
seed = 3
[mix]
mixup = 0.8
cutmix = 1.0
cutmix_minmax = [0.2, 0.8]
mix_token = 1.0
prob = 0.9
switch_prob = 0.25
mode = "pair"
order = "mix-erase"
off_epoch = 1
[augment]
preset = "cifar"
scale = [0.5, 0.9]
ratio = [1.0, 1.0]
hflip = 0.25
padding = 2
vflip = 0.125
auto = "3a"
color_jitter = 0.3
interpolation = "bilinear"
mean = [0.1, 0.2, 0.3]
std = [1.0, 2.0, 3.0]
crop_pct = 0.9
crop_mode = "squash"
erase = 0.25
erase_mode = "rand"
erase_count = 2
[optim]
name = "muon"
lr = 1e-3
lr_batch = 0
betas = [0.8, 0.95]
eps = 1e-6
momentum = 0.8
nesterov = false
weight_decay = 0.0
layer_decay = 0.75
clip_norm = 1.0
clip_value = 0.0
clip_parameter = 0.0
clip_agc = 0.0
[schedule]
kind = "constant"
warmup_epochs = 0.5
warmup_lr = 0.0
warmup_prefix = true
warmup_closed = true
min_lr = 1e-12
cooldown_epochs = 3
step_epochs = 2.5
step_rate = 0.3
power = 0.9
per = "step"
counts = "started"
weight_decay_end = 0.4
[loss]
kind = "bce"
token_weight = 0.5
label_smoothing = 0.0
bce_threshold = 0.2
bce_sum = true
heads = "class"
[distill]
kind = "soft"
teacher = "teacher.pth"
teacher_model = "deit_tiny_patch16_224"
alpha = 0.3
temperature = 2.0
divisor = "legacy"
[ema]
decay = 0.99996
warmup = true
report = "ema"
[train]
epochs = 2
batch_size = 8
accumulate = 4
sync_batch_norm = false
max_steps = 100
device = "cpu"
precision = "bf16"
eval_every = 0
[eval]
batch_size = 10
[analysis]
every = 3
images = 100
split = "val"
[log]
every_steps = 5
tensorboard = false
[report]
auto = false
[checkpoint]
every_epochs = 0
every_steps = 50
keep_last = 3
[run]
dir = "elsewhere"
"#;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|item| (*item).to_owned()).collect()
}

fn plan_of(text: &str, overrides: &[&str]) -> Result<Plan, ConfigError> {
    let path = Path::new("configs/x.toml");
    Document::from_text(path, text.to_owned(), &strings(overrides))?.plan()
}

fn error_of(text: &str, overrides: &[&str]) -> String {
    plan_of(text, overrides).unwrap_err().to_string()
}

/// A text without the list of all kinds of attention, which grows over time.
fn without_kinds(text: &str) -> String {
    let kinds = kvt_attention::AttentionConfig::KINDS.iter();
    let kinds: Vec<String> = kinds.map(|kind| format!("`\"{kind}\"`")).collect();
    text.replace(&kinds.join(" or "), "KINDS")
}

/// Writes files and loads the first one.
fn load(files: &[(&str, &str)]) -> (TempDir, Result<Plan, ConfigError>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let plan =
        Document::load(&folder.path().join(files[0].0), &[]).and_then(|document| document.plan());
    (folder, plan)
}

/// As [`load`], for invalid files; returns the message without the name of the temporary folder.
fn load_error(files: &[(&str, &str)]) -> String {
    let (folder, plan) = load(files);
    let message = plan.unwrap_err().to_string();
    message.replace(folder.path().to_str().unwrap(), "DIR")
}

//! Settings of several labels, and what conflicts with them.

use super::*;
use crate::recipe::LossKind;
use crate::task::testing::plan_of as plan;

const TEXT: &str = "task = \"multi-label\"\n[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"x\"\nlabels = \"labels.csv\"\n";

#[test]
fn each_class_is_by_itself_by_default() {
    let own = plan(TEXT, &[]).unwrap();
    assert_eq!(
        (own.loss.kind, own.loss.label_smoothing),
        (LossKind::Bce, 0.0)
    );
    assert_eq!(
        (own.multi_label.threshold, own.eval.batch_size),
        (0.5, 2 * own.train.batch_size)
    );
    assert!(own.read_data().label_sets && !own.data.label_sets);
    let own = plan(
        TEXT,
        &[
            "loss.label_smoothing=0.2",
            "mix.mixup=0.8",
            "loss.bce_sum=true",
        ],
    )
    .unwrap();
    assert_eq!((own.loss.label_smoothing, own.loss.bce_sum), (0.2, true));
    // Of one label for each image, nothing changes.
    let other = plan(TEXT, &["task=classify"]).unwrap();
    assert_eq!(other.loss.kind, LossKind::CrossEntropy);
    assert!(!other.read_data().label_sets);
}

#[test]
fn what_needs_one_label_is_refused() {
    for (set, expected) in [
        ("loss.kind=cross-entropy", "classes exclude each other"),
        ("loss.token_weight=0.5", "`loss.token_weight = 0`"),
        ("mix.mix_token=0.5", "`mix.mix_token = 0`"),
        ("data.kind=tar", "any number of labels"),
        ("multi_label.threshold=1", "multi_label.threshold"),
        (
            "multi_label.thresholds=[\"cat\"]",
            "a class and its threshold",
        ),
        (
            "multi_label.thresholds=[\"cat = 1.5\"]",
            "a class and its threshold",
        ),
        (
            "multi_label.thresholds=[\"cat = 0.5\", \"cat = 0.4\"]",
            "each class once",
        ),
    ] {
        let message = plan(TEXT, &[set]).unwrap_err();
        assert!(message.contains(expected), "{set}: {message}");
    }
    let text = TEXT.replace("task = \"multi-label\"\n", "") + "[multi_label]\nthreshold = 0.4\n";
    let message = plan(&text, &[]).unwrap_err();
    assert!(
        message.contains("add `task = \"multi-label\"`"),
        "{message}"
    );
}

#[test]
fn classes_have_their_thresholds() {
    let config = MultiLabelConfig {
        threshold: 0.4,
        thresholds: vec!["a = b = 0.25".to_owned(), "dog=0.75".to_owned()],
    };
    assert_eq!(config.misfit(), None);
    let classes = ["a = b", "cat", "dog"].map(str::to_owned);
    assert_eq!(config.of(&classes).unwrap(), [0.25, 0.4, 0.75]);
    let error = config.of(&classes[..2]).unwrap_err().to_string();
    assert!(
        error.contains("names `dog`, but the classes are `a = b`, `cat`"),
        "{error}"
    );
}

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::source::{Place, Sample};
use crate::{DataState, listing_of};

/// Images whose classes are texts, as of a column of text.
fn texts(texts: &[&str]) -> Source {
    let samples = (0..).zip(texts).map(|(label, _)| Sample {
        path: format!("data/{label}.png").into(),
        label,
        place: Place::File,
    });
    let classes = texts.iter().map(|&text| text.to_owned()).collect();
    let source = Source::new("data".into(), classes, samples.collect()).unwrap();
    Source {
        are_labels: true,
        ..source
    }
}

#[test]
fn labels_are_between_bars() {
    assert_eq!(labels_in("cat| big dog ").unwrap(), ["cat", "big dog"]);
    for none in ["", "  ", "|"] {
        assert!(labels_in(none).unwrap().is_empty(), "{none:?}");
    }
    for (text, expected) in [
        ("a||b", "is empty"),
        ("a|", "is empty"),
        ("a|b|a", "`a` is twice"),
    ] {
        let reason = labels_in(text).unwrap_err();
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn texts_become_labels() {
    let source = texts(&["dog|cat", "|", "owl", "cat"]);
    let split = source.split_labels(None, ClassOrder::Byte).unwrap();
    assert_eq!(split.classes, ["cat", "dog", "owl"]);
    let labels: Vec<&[u32]> = (0..4).map(|index| split.labels(index)).collect();
    assert_eq!(labels, [&[0, 1][..], &[], &[2], &[0]]);
    assert_eq!(split.class_counts(), [2, 1, 1]);
    assert_eq!((split.unlabelled(), split.has_label_sets()), (1, true));

    // With the classes of another split, in their order.
    let known = ["owl", "cat", "dog"].map(str::to_owned);
    let other = texts(&["cat|dog", "owl"]);
    let other = other.split_labels(Some(&known), ClassOrder::Byte).unwrap();
    assert_eq!((other.labels(0), other.labels(1)), (&[1, 2][..], &[0][..]));
    assert_eq!(other.classes, known);

    let error = |texts: Source, known: Option<&[String]>| {
        let error = texts.split_labels(known, ClassOrder::Byte).unwrap_err();
        error.to_string()
    };
    let message = error(texts(&["a", "a|b|a"]), None);
    assert!(
        message.contains("data/1.png") && message.contains("twice"),
        "{message}"
    );
    let message = error(texts(&["cat", "cat|cow"]), Some(&known));
    assert!(
        message.contains("data/1.png") && message.contains("`cow` is none of"),
        "{message}"
    );
    let message = error(texts(&["|"]), None);
    assert!(message.contains("no image has a label"), "{message}");
    let numbers = Source {
        are_labels: false,
        ..texts(&["0"])
    };
    assert!(error(numbers, None).contains("the labels are numbers"));
}

/// The labels after the first are part of the identity of the data, and stay with their image.
#[test]
fn labels_follow_their_images() {
    let split = |all: &[&str]| {
        let known = ["a", "b", "c"].map(str::to_owned);
        texts(all)
            .split_labels(Some(&known), ClassOrder::Byte)
            .unwrap()
    };
    let whole = split(&["a|b", "c", "a|c", "b"]);
    assert_ne!(
        listing_of(&whole),
        listing_of(&split(&["a", "c", "a|c", "b"]))
    );
    let chosen = crate::source::share::chosen(&whole, |index| index >= 2);
    assert_eq!(
        (chosen.labels(0), chosen.labels(1)),
        (&[0, 2][..], &[1][..])
    );
    assert_eq!(chosen.class_counts(), [1, 1, 1]);
    let state = DataState::of(&whole, &chosen, false);
    assert!(!state.agrees(&DataState::of(&whole, &whole, false)));
    // One label each, as it always was.
    let single = texts(&["a", "b"]);
    assert_eq!((single.labels(1), single.labels(7)), (&[1][..], &[][..]));
    assert_eq!((single.unlabelled(), single.has_label_sets()), (0, false));
}

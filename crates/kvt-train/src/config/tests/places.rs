//! The location of a mistake: files, bases, overrides, lines.

use super::*;

#[test]
fn syntax_errors_have_a_place() {
    assert_snapshot!(error_of("seed = 1\n[model\nname = 3\n", &[]), @r#"
    configs/x.toml:2:7: not valid TOML: unclosed table, expected `]`
      |
    2 | [model
      |       ^
    "#);
    assert_snapshot!(error_of("seed = 1\nseed = 2\n", &[]), @r#"
    configs/x.toml:2:1: not valid TOML: duplicate key
      |
    2 | seed = 2
      | ^^^^
    "#);
}

#[test]
fn bad_overrides_are_refused() {
    assert_snapshot!(error_of(SMALL, &["seed", "train..epochs=1", "base=other.toml"]), @r#"
    --set base=other.toml: `base` cannot be set from outside a file
      help: give the file itself instead

    --set seed: no value
      help: expected `KEY=VALUE`, such as `train.epochs=10`

    --set train..epochs=1: empty key
      help: expected `KEY=VALUE`, such as `train.epochs=10`

    3 problems in the configuration
    "#);
}

#[test]
fn a_mistake_in_a_base_is_reported_there() {
    let message = load_error(&[
        ("top.toml", "base = \"base.toml\"\n[train]\nepochs = 1\n"),
        (
            "base.toml",
            "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"d\"\n[train]\nbatch_size = 0\nepochs = 0\n",
        ),
    ]);
    assert_snapshot!(message, @r#"
    DIR/base.toml:6:14: invalid value `0` for `train.batch_size`: expected an integer in [1, 65536]
      |
    6 | batch_size = 0
      |              ^
    "#);
}

#[test]
fn bases_in_a_circle_are_refused() {
    let message = load_error(&[
        ("a.toml", "base = \"b.toml\"\n"),
        ("b.toml", "seed = 1\nbase = \"a.toml\"\n"),
    ]);
    assert_snapshot!(message, @r#"
    DIR/b.toml:2:8: `base` goes in a circle: `DIR/a.toml` -> `DIR/b.toml` -> `DIR/a.toml`
      |
    2 | base = "a.toml"
      |        ^^^^^^^^
    "#);
}

#[test]
fn a_missing_base_and_a_missing_file_are_named() {
    assert_snapshot!(load_error(&[("a.toml", "base = \"gone.toml\"\n")]), @r#"
    DIR/a.toml:1:8: cannot read the base: no file `DIR/gone.toml`
      |
    1 | base = "gone.toml"
      |        ^^^^^^^^^^^
      help: `base` is relative to the file that names it
    "#);
    assert_snapshot!(load_error(&[("a.toml", "base = 3\n")]), @r#"
    DIR/a.toml:1:8: invalid value for `base`: expected the path of a file
      |
    1 | base = 3
      |        ^
    "#);
    let error = Document::load(Path::new("gone.toml"), &[]).unwrap_err();
    assert!(matches!(error, ConfigError::Read(_)));
    assert!(error.to_string().contains("gone.toml"));
}

#[test]
fn places_count_characters_not_bytes() {
    let error = plan_of("run = { dir = \"äö\", nme = 1 }", &[]).unwrap_err();
    let ConfigError::Invalid(problems) = error else {
        unreachable!()
    };
    let Location::Span { line, column, .. } = problems[0].place else {
        unreachable!()
    };
    assert_eq!((line, column), (1, 21));
}

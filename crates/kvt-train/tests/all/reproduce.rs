//! `kvt reproduce`: figures of papers.

use crate::support::Workspace;

#[test]
fn names_are_listed() {
    let workspace = Workspace::empty();
    let output = workspace.kvt(&["reproduce", "list"]).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    insta::assert_snapshot!(text, @r"
    scram-fig2    SCRAM, figure 2: sparse and full attention maps
    scram-fig3    SCRAM, figure 3: the best keys and the modes of one query
    scram-fig4    SCRAM, figure 4: forward time by the number of tokens
    scram-recall  SCRAM: recall and attention mass of the search by the number of tokens
    ");
}

#[test]
fn a_figure_is_computed_into_a_folder() {
    let workspace = Workspace::empty();
    let output = workspace
        .kvt(&["reproduce", "scram-fig3"])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    insta::assert_snapshot!(text, @r"
    wrote `runs/reproduce/scram-fig3/scram-fig3.csv`
    wrote `runs/reproduce/scram-fig3/scram-fig3.svg`
    wrote `runs/reproduce/scram-fig3/scram-fig3.md`
    ");
    let page = workspace.read("runs/reproduce/scram-fig3/scram-fig3.md");
    assert!(page.starts_with("# SCRAM, figure 3"), "{page}");
    assert!(
        page.contains("Not stated: the size of the map") && page.contains("| 1 2 3 | yes |"),
        "{page}"
    );

    // The same again, and elsewhere.
    workspace
        .kvt(&["reproduce", "scram-fig3", "--out", "p"])
        .assert()
        .success();
    assert_eq!(workspace.entries("p").len(), 3);
    for extension in ["csv", "svg"] {
        let read = |folder: &str| workspace.read(&format!("{folder}/scram-fig3.{extension}"));
        assert_eq!(read("p"), read("runs/reproduce/scram-fig3"));
    }
}

#[test]
fn what_cannot_be_reproduced_is_said() {
    let workspace = Workspace::empty();
    let error = workspace.error(&["reproduce", "scram-fig9"]);
    assert!(
        error.contains("the names are `scram-fig2`, `scram-fig3`, `scram-fig4`, `scram-recall`"),
        "{error}"
    );
    workspace.write("file", "no folder");
    let error = workspace.error(&["reproduce", "scram-fig3", "--out", "file"]);
    assert!(error.contains("file"), "{error}");
    assert_eq!(workspace.read("file"), "no folder");
}

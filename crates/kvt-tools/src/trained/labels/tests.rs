use super::*;
use kvt_train::task::LabelScores;

/// Three classes by hand: one is found half, one never, and one is nowhere.
#[test]
fn tables_have_the_counts_of_the_labels() {
    let score = |images, predicted, right, ap| LabelScore {
        threshold: 0.5,
        counts: ClassRow {
            images,
            predicted,
            right,
        },
        ap,
    };
    let evaluation = LabelEvaluation {
        images: 8,
        unlabelled: 3,
        loss: 0.25,
        scores: LabelScores(vec![
            score(4, 2, 2, Some(0.75)),
            score(1, 0, 0, Some(0.25)),
            score(0, 1, 0, None),
        ]),
    };
    let classes = ["cat", "a, b", "owl"].map(str::to_owned);
    let results = LabelResults {
        evaluation: &evaluation,
        images: "images of `x`",
        classes: &classes,
    };
    // F1: 4 / 6, 0, and of all 4 / 8.
    assert_eq!(
        results.text(),
        "mAP 50.00 %  micro F1 50.00 %  macro F1 33.33 %  loss 0.2500  (8 images of `x`, 3 of them without a label)\n\
         no image has 1 of 3 classes, which mAP and macro F1 leave out: `owl`"
    );
    assert_eq!(
        results.csv(),
        "class,name,images,predicted,right,ap,precision,recall,f1,threshold\n\
         0,cat,4,2,2,0.75,1,0.5,0.6666666666666666,0.5\n\
         1,\"a, b\",1,0,0,0.25,,0,0,0.5\n\
         2,owl,0,1,0,,0,,0,0.5\n"
    );
    let rows = results.classes();
    assert_eq!(
        rows[0],
        [
            "cat", "4", "75.00 %", "100.00 %", "50.00 %", "66.67 %", "0.5"
        ]
    );
    assert_eq!(rows[2], ["owl", "0", "-", "0.00 %", "-", "0.00 %", "0.5"]);
    let json = results.json(true);
    assert_eq!(
        (&json["map"], &json["absent"][0]),
        (&json!(50.0), &json!("owl"))
    );
    assert_eq!(json["classes"][0]["recall"], 50.0);
    assert!(json["classes"][1]["precision"].is_null());
    assert!(results.json(false).get("classes").is_none());
}

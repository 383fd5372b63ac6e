//! `kvt config preview`: pictures before a run.

use crate::support::Workspace;

fn preview<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let base = ["config", "preview", "tiny.toml"];
    base.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn the_rate_and_the_images_are_drawn() {
    let workspace = Workspace::with_data(6, 2);
    let output = workspace.kvt(&preview(&[])).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    insta::assert_snapshot!(text, @r"
    wrote `runs/preview/tiny/lr.png`
    wrote `runs/preview/tiny/images.png`
    18 images, 3 updates of 6 in an epoch, 2 epochs

     epoch  learning rate
     1           1.000e-6
     2           5.050e-4
    ");
    let open = |name: &str| {
        let path = workspace.path("runs/preview/tiny").join(name);
        image::open(path).unwrap().to_rgb8()
    };
    let curve = open("lr.png");
    assert_eq!(curve.dimensions(), (1600, 900));
    let line = curve
        .pixels()
        .filter(|pixel| pixel.0 == [0x00, 0x72, 0xb2])
        .count();
    assert!(line > 3000, "{line} pixels of the curve");
    // 16 px are drawn six times as large, in 8 columns and 4 rows.
    let sheet = open("images.png");
    assert_eq!(
        sheet.dimensions(),
        (8 + 8 * (96 + 8), 8 + 24 + 4 * (24 + 96 + 8))
    );
    let coloured = sheet.pixels().filter(|pixel| pixel.0 != [255; 3]).count();
    assert!(coloured >= 8 * 4 * 96 * 96, "{coloured}");

    // The same again, in another folder.
    let before = fs_err::read(workspace.path("runs/preview/tiny/images.png")).unwrap();
    workspace.kvt(&preview(&["--out", "p"])).assert().success();
    assert_eq!(
        fs_err::read(workspace.path("p/images.png")).unwrap(),
        before
    );
    assert_eq!(workspace.entries("p").len(), 2);
    workspace
        .kvt(&preview(&[
            "--out",
            "p",
            "--set",
            "seed=9",
            "--set",
            "augment.preset=imagenet",
        ]))
        .assert()
        .success();
    assert_ne!(
        fs_err::read(workspace.path("p/images.png")).unwrap(),
        before
    );
    assert_eq!(workspace.entries("p").len(), 2);
}

#[test]
fn what_cannot_be_drawn_leaves_nothing() {
    let workspace = Workspace::empty();
    let error = workspace.error(&preview(&[]));
    assert!(error.contains("no folder `data/train`"), "{error}");
    let workspace = Workspace::with_data(6, 2);
    for class in ["a", "b", "c"] {
        workspace.write(&format!("data/train/{class}/000.png"), "no image");
        for index in 1..6 {
            workspace.write(&format!("data/train/{class}/00{index}.png"), "no image");
        }
    }
    let error = workspace.error(&preview(&[]));
    assert!(
        error.contains("not a JPEG, PNG, WebP, BMP, TIFF or GIF file"),
        "{error}"
    );
    let skip = preview(&["--set", "data.on_error=skip"]);
    assert_eq!(workspace.error(&skip), error);
    assert!(!workspace.path("runs").exists());

    // Of the four evenly spaced images, one can be read.
    workspace.images("data/train/c", 6);
    workspace.kvt(&skip).assert().success();
    let sheet = image::open(workspace.path("runs/preview/tiny/images.png")).unwrap();
    assert_eq!(sheet.height(), 8 + 24 + (24 + 96 + 8));
}

//! Shared by the tests of segmentation and detection: short runs of tiny networks on generated scenes, and what their verbs have in
//! common.

use image::RgbImage;
use kvt_testing::scenes::{DETECT, OPTIM, SEGMENT, model, multiscale, shapes};

use crate::support::Workspace;

/// A folder with the configuration `scenes.toml`.
pub(crate) fn workspace(config: &str) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("scenes.toml", config);
    workspace
}

/// Pixels of three classes, the background among them, on scenes of 32 px.
pub(crate) fn segment() -> String {
    let images = "[dense]\nscale = [32, 32]\nratio = [1.0, 1.0]\ncrop = [32, 32]\ncat_max_ratio = 1.0\nphotometric = false\n";
    let scenes = shapes("path = \"scenes\"\nworkers = 0\n", 32, 2, [6, 3]);
    let train = train("epochs = 2\nbatch_size = 4\n");
    format!("{}{SEGMENT}{images}{scenes}{train}", model("segment", 32))
}

/// Objects of three classes on scenes of 64 px below `path`, of which so many of each class train; `sizes` and `max` are those of
/// `[multiscale]`, and `length` are keys of `[train]`.
pub(crate) fn detect(path: &str, images: u32, (sizes, max): (&str, u32), length: &str) -> String {
    let scenes = shapes(
        &format!("path = \"{path}\"\nworkers = 0\n"),
        64,
        3,
        [images, 1],
    );
    let (images, train) = (multiscale(sizes, max), train(length));
    format!("{}{DETECT}{images}{scenes}{train}", model("detect", 64))
}

fn train(length: &str) -> String {
    format!(
        "{OPTIM}[schedule]\nkind = \"constant\"\nper = \"step\"\nwarmup_epochs = 0\n[train]\n{length}device = \"cpu\"\n\
         [log]\ntensorboard = false\n[report]\nauto = false\n[run]\ndir = \"run\"\n"
    )
}

/// The sheet of `kvt config preview`: images of `side` pixels as they are drawn, in 8 columns and 4 rows, above the names of the
/// classes. Also how high the rows are.
pub(crate) fn preview(workspace: &Workspace, side: u32) -> (RgbImage, u32) {
    let line = "config preview scenes.toml --out shown";
    workspace.line(line).assert().success();
    let sheet = image::open(workspace.path("shown/images.png"));
    let sheet = sheet.unwrap().to_rgb8();
    let (width, rows) = (8 + 8 * (side + 8), 8 + 24 + 4 * (24 + side + 8));
    assert!(
        sheet.width() == width && sheet.height() > rows,
        "{:?}",
        sheet.dimensions()
    );
    (sheet, rows)
}

/// Times a step; `side` is the shorter side of the images.
pub(crate) fn step_is_timed(workspace: &Workspace, side: u32) {
    let line = "bench step --config scenes.toml --batch 2 --kind dense --runs 1 --warmup 1 --json step.json";
    workspace.line(line).assert().success();
    let found = workspace.read("step.json");
    let side = format!("\"img_size\": {side}");
    assert!(
        found.contains("step_ms") && found.contains(&side),
        "{found}"
    );
}

/// Makes the report with two images, which has these texts.
pub(crate) fn report_has(workspace: &Workspace, texts: &[&str]) {
    workspace
        .line("report run --eval --samples 2")
        .assert()
        .success();
    let page = workspace.read("run/report.html");
    for text in texts {
        assert!(page.contains(text), "{text}");
    }
}

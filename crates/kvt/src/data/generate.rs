//! `kvt data generate`

use std::path::PathBuf;
use std::str::FromStr;

use crate::common::{generating, one_of};
use crate::output;
use kvt_train::data::shapes::{Layout, ShapesConfig, ensure};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data generate shapes --image-size 64 --classes 5\n  kvt data generate scenes --layout dense --image-size 64 --objects 2,5"
)]
pub(super) struct Args {
    /// The folder to write.
    dir: PathBuf,
    /// One shape in an image, or scenes of several with masks and annotations.
    #[arg(long, default_value = "folder", value_parser = one_of(LAYOUTS))]
    layout: Layout,
    /// Side of an image in pixels.
    #[arg(long, default_value_t = ShapesConfig::default().image_size)]
    image_size: u32,
    /// Number of classes.
    #[arg(long, default_value_t = ShapesConfig::default().classes)]
    classes: usize,
    /// Training images of each class.
    #[arg(long, default_value_t = ShapesConfig::default().train_per_class)]
    train_per_class: usize,
    /// Validation images of each class.
    #[arg(long, default_value_t = ShapesConfig::default().val_per_class)]
    val_per_class: usize,
    /// How much clutter there is behind the shape, from 0 to 1.
    #[arg(long, default_value_t = ShapesConfig::default().clutter)]
    clutter: f64,
    /// How much of it is hidden, from 0 to 1.
    #[arg(long, default_value_t = ShapesConfig::default().occlusion)]
    occlusion: f64,
    /// Fewest and most shapes of a scene; by default 1,2.
    #[arg(long, value_name = "FEWEST,MOST", value_parser = pair::<usize>)]
    objects: Option<[usize; 2]>,
    /// Smallest and largest radius of a shape of a scene, in sides of the image; by default 0.18,0.32.
    #[arg(long, value_name = "SMALLEST,LARGEST", value_parser = pair::<f64>)]
    radius: Option<[f64; 2]>,
    /// Seed.
    #[arg(long, default_value_t = ShapesConfig::default().seed)]
    seed: u64,
}

/// `data.shapes.layout`
const LAYOUTS: [(Layout, &str, &str); 2] =
    [(Layout::Folder, "folder", ""), (Layout::Dense, "dense", "")];

/// Two numbers with a comma between them.
fn pair<T: FromStr>(text: &str) -> Result<[T; 2], String> {
    let numbers = text
        .split_once(',')
        .map(|(a, b)| (a.trim().parse(), b.trim().parse()));
    match numbers {
        Some((Ok(a), Ok(b))) => Ok([a, b]),
        _ => Err("expected two numbers with a comma between them".to_owned()),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let unset = ShapesConfig::default();
    let config = ShapesConfig {
        layout: args.layout,
        objects: args.objects.unwrap_or(unset.objects),
        radius: args.radius.unwrap_or(unset.radius),
        image_size: args.image_size,
        classes: args.classes,
        train_per_class: args.train_per_class,
        val_per_class: args.val_per_class,
        clutter: args.clutter,
        occlusion: args.occlusion,
        seed: args.seed,
    };
    let made = ensure(&config, &args.dir, &mut generating())?;
    let done = if made.generated {
        "wrote"
    } else {
        "there are already"
    };
    output::print(&format!(
        "{done} {} training and {} validation images of {} classes in `{}`",
        made.train,
        made.val,
        made.classes.len(),
        args.dir.display()
    ))
}

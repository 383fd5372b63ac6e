//! One scene: background, clutter, shapes, occluders, noise, in this order; its mask and its objects.

use image::{GrayImage, RgbImage};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::coco::rle::Rle;
use crate::shapes::canvas::{Canvas, Color, GROUND};
use crate::shapes::config::ShapesConfig;
use crate::shapes::figure::Figure;
use crate::shapes::scene::{Pose, color_unlike, occlude, random_color, uniform};
use crate::{IGNORED, Split};
use kvt_ops::Key;

/// Pieces of clutter at `clutter = 1`.
const CLUTTER: f64 = 8.0;
/// Noise of each value, at most.
const NOISE: f32 = 0.05;
/// Two shapes are at least this share of the sum of their radii apart.
const APART: f32 = 0.8;
/// How often a place for a shape is looked for.
const TRIES: usize = 20;
/// An object with fewer visible pixels is neither its class nor background.
pub(super) const VISIBLE: u32 = 16;
/// The share of the scenes in which all objects of a class are annotated as one.
const GROUPS: f32 = 0.01;

/// An image and what is in it.
pub(super) struct Scene {
    pub(super) image: RgbImage,
    /// 0 for the background, else the class from 1, or [`IGNORED`].
    pub(super) labels: GrayImage,
    /// In the order in which they are painted, without those of fewer than [`VISIBLE`] pixels.
    pub(super) objects: Vec<Object>,
}

/// An object, or a group of objects, to be annotated.
pub(super) struct Object {
    /// From 1.
    pub(super) class: u8,
    /// The visible pixels.
    pub(super) mask: Rle,
    /// `x, y, x, y, ...` in pixels, to hundredths, if all of it is visible and it is a polygon.
    pub(super) outline: Option<Vec<f64>>,
    /// Whether it is several objects that are not told apart.
    pub(super) is_group: bool,
}

/// A shape at its place.
pub(super) struct Placed {
    pub(super) figure: Figure,
    /// From 1.
    pub(super) class: u8,
    pub(super) pose: Pose,
}

/// Draws a scene. The first shape is of the classes in turn, so that each class has as many scenes.
pub(super) fn render(config: &ShapesConfig, split: Split, index: usize) -> Scene {
    let key = config.scene_key(split, index);
    let side = config.image_size as usize;
    let (ground, ground_color) = background(key);
    let mut canvas = Canvas::new(side, ground);
    add_clutter(&mut canvas, config.clutter, &mut key.named("clutter").rng());
    let placed = placed(config, split, index);
    for (layer, Placed { figure, pose, .. }) in (GROUND + 1..).zip(&placed) {
        let mut rng = key.named("color").child(u64::from(layer)).rng();
        let color = color_unlike(ground_color, &mut rng);
        canvas.paint(layer, pose, |_, _| color, |x, y| figure.contains(x, y));
    }
    for (number, Placed { figure, pose, .. }) in (1..).zip(&placed) {
        let mut rng = key.named("occluder").child(number).rng();
        occlude(
            &mut canvas,
            *figure,
            pose,
            config.occlusion as f32,
            &mut rng,
        );
    }
    let (labels, mut objects) = visible(&canvas.layers, side, &placed);
    if uniform(&mut key.named("group").rng(), 0.0, 1.0) < GROUPS {
        group(&mut objects);
    }
    let mut rng = key.named("noise").rng();
    Scene {
        image: canvas.into_image(|| uniform(&mut rng, -NOISE, NOISE)),
        labels,
        objects,
    }
}

/// A colour with a gradient of its own in each channel. Also returns the colour.
fn background(key: Key) -> (impl FnMut(f32, f32) -> Color, Color) {
    let mut rng = key.named("background").rng();
    let color = random_color(&mut rng);
    let slope = [(); 2].map(|()| uniform(&mut rng, -1.0, 1.0));
    let strength = [(); 3].map(|()| uniform(&mut rng, -0.2, 0.2));
    let paint = move |x: f32, y: f32| {
        let [across, down] = slope;
        let level = (x - 0.5) * across + (y - 0.5) * down;
        let mut result = color;
        for (value, strength) in result.iter_mut().zip(strength) {
            *value += strength * level;
        }
        result
    };
    (paint, color)
}

/// Bars and ellipses that are smaller than the shapes.
fn add_clutter(canvas: &mut Canvas, clutter: f64, rng: &mut ChaCha8Rng) {
    let most = (clutter * CLUTTER).round() as u32;
    for _ in 0..rng.random_range(0..=most) {
        let pose = Pose::somewhere(uniform(rng, 0.02, 0.06), rng);
        let color = random_color(rng);
        let is_bar = rng.random::<bool>();
        let inside = |x: f32, y: f32| {
            if is_bar {
                x.abs() < 0.95 && y.abs() < 0.15
            } else {
                x * x + 4.0 * y * y < 1.0
            }
        };
        canvas.paint(GROUND, &pose, |_, _| color, inside);
    }
}

/// Shapes in the order in which they are painted, as many as there is room for.
pub(super) fn placed(config: &ShapesConfig, split: Split, index: usize) -> Vec<Placed> {
    let mut rng = config.scene_key(split, index).named("places").rng();
    let rng = &mut rng;
    let [fewest, most] = config.objects.map(|count| count as u32);
    let [smallest, largest] = config.radius.map(|radius| radius as f32);
    let mut placed: Vec<Placed> = Vec::new();
    for number in 0..rng.random_range(fewest..=most) {
        let drawn = rng.random_range(0..config.classes as u32) as usize;
        let class = if number == 0 {
            index % config.classes
        } else {
            drawn
        };
        let poses = (0..TRIES).map(|_| Pose::somewhere(uniform(rng, smallest, largest), rng));
        let mut free = poses.filter(|pose| placed.iter().all(|other| is_apart(pose, &other.pose)));
        if let (Some(pose), Some(figure)) = (free.next(), config.figures().nth(class)) {
            placed.push(Placed {
                figure,
                class: class as u8 + 1,
                pose,
            });
        }
    }
    placed
}

fn is_apart(a: &Pose, b: &Pose) -> bool {
    let (dx, dy) = (a.center.0 - b.center.0, a.center.1 - b.center.1);
    let least = APART * (a.size + b.size);
    dx * dx + dy * dy > least * least
}

/// The mask and the objects, from the visible layer of each pixel.
fn visible(layers: &[u8], side: usize, placed: &[Placed]) -> (GrayImage, Vec<Object>) {
    let mut values = vec![GROUND];
    let mut objects = Vec::new();
    for (layer, shape) in (GROUND + 1..).zip(placed) {
        let at = |row: u32, column: u32| layers.get(row as usize * side + column as usize);
        let mask = Rle::encode((side as u32, side as u32), |row, column| {
            at(row, column) == Some(&layer)
        });
        let is_annotated = mask.area() >= VISIBLE;
        values.push(if is_annotated { shape.class } else { IGNORED });
        if is_annotated {
            let is_whole = mask.area() as usize == shape.pixels(side);
            objects.push(Object {
                class: shape.class,
                mask,
                outline: shape.outline(side).filter(|_| is_whole),
                is_group: false,
            });
        }
    }
    let mut layers = layers.iter();
    let labels = GrayImage::from_fn(side as u32, side as u32, |_, _| {
        let layer = layers.next().copied().unwrap_or(GROUND);
        [values.get(usize::from(layer)).copied().unwrap_or(GROUND)].into()
    });
    (labels, objects)
}

impl Placed {
    /// The number of pixels whose centre is inside.
    fn pixels(&self, side: usize) -> usize {
        let center = |i: usize| (i as f32 + 0.5) / side as f32;
        let is_inside = |i: &usize| {
            let (x, y) = self.pose.local(center(i % side), center(i / side));
            self.figure.contains(x, y)
        };
        (0..side * side).filter(is_inside).count()
    }

    /// The corners of the polygon in pixels.
    fn outline(&self, side: usize) -> Option<Vec<f64>> {
        let in_pixels = |share: f32| (f64::from(share) * side as f64 * 100.0).round() / 100.0;
        let corners = self.figure.outline()?.into_iter();
        let numbers = corners.flat_map(|(x, y)| {
            let (x, y) = self.pose.global(x, y);
            [in_pixels(x), in_pixels(y)]
        });
        Some(numbers.collect())
    }
}

/// Joins all objects of the first one's class.
fn group(objects: &mut Vec<Object>) {
    let mut all = std::mem::take(objects).into_iter();
    let Some(first) = all.next() else {
        return;
    };
    let (others, rest): (Vec<_>, Vec<_>) = all.partition(|object| object.class == first.class);
    let others: Vec<Rle> = others.into_iter().map(|other| other.mask).collect();
    objects.push(Object {
        class: first.class,
        mask: first.mask.union(&others),
        outline: None,
        is_group: true,
    });
    objects.extend(rest);
}

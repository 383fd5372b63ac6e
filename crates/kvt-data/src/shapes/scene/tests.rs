use super::*;

fn draw(figure: Figure, clutter: f32, occlusion: f32, seed: u64) -> RgbImage {
    render(figure, 32, clutter, occlusion, Key::new(seed))
}

#[test]
fn the_key_and_nothing_else_decides() {
    let image = draw(Figure::Star, 0.5, 0.3, 1);
    assert_eq!(image, draw(Figure::Star, 0.5, 0.3, 1));
    assert_ne!(image, draw(Figure::Star, 0.5, 0.3, 2));
}

/// Two classes drawn with the same key differ only where the shapes differ: the scene does not depend on the class.
#[test]
fn the_scene_is_independent_of_the_class() {
    for seed in 0..20 {
        let (circle, ring) = (
            draw(Figure::Circle, 1.0, 0.0, seed),
            draw(Figure::Ring, 1.0, 0.0, seed),
        );
        let differing = circle
            .pixels()
            .zip(ring.pixels())
            .filter(|(a, b)| a != b)
            .count();
        // The hole has a radius of 0.55 times at most 0.4 of 32 pixels: 156 pixels, and its edge.
        assert!((1..230).contains(&differing), "{differing}");
    }
}

#[test]
fn clutter_and_occluders_come_on_top_of_the_same_scene() {
    let changed =
        |a: &RgbImage, b: &RgbImage| a.pixels().zip(b.pixels()).filter(|(a, b)| a != b).count();
    let (mut cluttered, mut occluded) = (0, 0);
    for seed in 0..50 {
        let plain = draw(Figure::Circle, 0.0, 0.0, seed);
        cluttered += changed(&plain, &draw(Figure::Circle, 1.0, 0.0, seed));
        occluded += changed(&plain, &draw(Figure::Circle, 0.0, 1.0, seed));
    }
    assert!(cluttered > 50 * 50 && cluttered < 50 * 900, "{cluttered}");
    assert!(occluded > 50 * 20 && occluded < 50 * 600, "{occluded}");
}

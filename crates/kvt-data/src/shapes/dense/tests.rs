#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;

use serde_json::Value;

use super::scene::VISIBLE;
use super::*;
use crate::coco::rle::Rle;
use crate::shapes::folder::tests::hash_of;
use crate::shapes::{Layout, ensure};
use crate::{IGNORED, ImageLimits, decode};

/// Crowded, so that shapes cover each other.
fn crowded() -> ShapesConfig {
    ShapesConfig {
        layout: Layout::Dense,
        image_size: 48,
        classes: 4,
        train_per_class: 20,
        val_per_class: 5,
        objects: [2, 5],
        radius: [0.12, 0.25],
        ..ShapesConfig::default()
    }
}

fn made(config: &ShapesConfig) -> (tempfile::TempDir, std::path::PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("scenes");
    ensure(config, &dir, &mut |_, _| {}).unwrap();
    (temp, dir)
}

fn grey(path: &Path) -> image::GrayImage {
    let mask = image::open(path).unwrap();
    assert_eq!(mask.color(), image::ColorType::L8);
    mask.into_luma8()
}

fn json(dir: &Path, split: &str) -> Value {
    let path = dir.join(format!("annotations/{split}.json"));
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

fn numbers<T: TryFrom<u64>>(value: &Value) -> Vec<T>
where
    T::Error: std::fmt::Debug,
{
    let all = value.as_array().unwrap().iter();
    all.map(|n| n.as_u64().unwrap().try_into().unwrap())
        .collect()
}

/// What covers the centre of a pixel in a painting without anything but shapes, each tested against all that come after it.
#[test]
fn masks_are_the_visible_pixels_of_a_naive_painter() {
    let config = ShapesConfig {
        clutter: 0.0,
        occlusion: 0.0,
        ..crowded()
    };
    let side = config.image_size;
    let (mut covered, mut hidden) = (0, 0);
    for index in 0..60 {
        let scene = scene::render(&config, Split::Train, index);
        let placed = scene::placed(&config, Split::Train, index);
        let inside = |shape: &scene::Placed, column: u32, row: u32| {
            let center = |i: u32| (i as f32 + 0.5) / side as f32;
            let (dx, dy) = (
                (center(column) - shape.pose.center.0) / shape.pose.size,
                (center(row) - shape.pose.center.1) / shape.pose.size,
            );
            let (c, s) = shape.pose.axis;
            shape.figure.contains(c * dx + s * dy, c * dy - s * dx)
        };
        let owner = |column: u32, row: u32| {
            let mut all = placed.iter().enumerate().rev();
            all.find(|(_, shape)| inside(shape, column, row))
                .map(|(i, _)| i)
        };
        let places = || (0..side * side).map(|place| (place % side, place / side));
        let sizes: Vec<usize> = (0..placed.len())
            .map(|number| {
                places()
                    .filter(|&(x, y)| owner(x, y) == Some(number))
                    .count()
            })
            .collect();
        for (x, y) in places() {
            let expected = match owner(x, y) {
                None => 0,
                Some(number) if sizes[number] < VISIBLE as usize => IGNORED,
                Some(number) => placed[number].class,
            };
            assert_eq!(
                scene.labels.get_pixel(x, y).0,
                [expected],
                "{index}: {x} {y}"
            );
        }
        let wholes = placed
            .iter()
            .map(|shape| places().filter(|&(x, y)| inside(shape, x, y)).count());
        covered += sizes
            .iter()
            .zip(wholes)
            .filter(|(seen, whole)| *seen < whole)
            .count();
        hidden += sizes
            .iter()
            .filter(|seen| **seen < VISIBLE as usize)
            .count();
        let areas = scene
            .objects
            .iter()
            .map(|object| object.mask.area() as usize);
        let annotated = sizes.iter().filter(|seen| **seen >= VISIBLE as usize);
        assert_eq!(areas.sum::<usize>(), annotated.sum::<usize>());
    }
    assert!(covered > 10, "{covered}");
    // Shapes of this size are 0.8 of their radii apart: none is hidden as a whole.
    assert_eq!(hidden, 0);
}

#[test]
fn small_remains_are_neither_class_nor_background() {
    let config = ShapesConfig {
        objects: [20, 20],
        radius: [0.02, 0.5],
        clutter: 0.0,
        occlusion: 0.0,
        ..crowded()
    };
    let mut ignored = 0;
    for index in 0..100 {
        let scene = scene::render(&config, Split::Val, index);
        ignored += scene
            .labels
            .pixels()
            .filter(|pixel| pixel.0 == [IGNORED])
            .count();
        assert!(
            scene
                .objects
                .iter()
                .all(|object| object.mask.area() >= VISIBLE)
        );
    }
    assert!(ignored > 100, "{ignored}");
}

#[test]
fn annotations_agree_with_the_masks() {
    let config = ShapesConfig {
        train_per_class: 100,
        ..crowded()
    };
    let (_temp, dir) = made(&config);
    let side = config.image_size;
    let names = fs_err::read_to_string(dir.join("classes.txt")).unwrap();
    assert_eq!(names, "background\ncircle\nsquare\ntriangle\ncross\n");
    let mut forms = HashMap::new();
    // Pixels on the rims of polygons that were taken for another object of their class.
    let (mut groups, mut taken) = (0, 0);
    for (split, images) in [("train", 400), ("val", 20)] {
        let json = json(&dir, split);
        let categories = json["categories"].as_array().unwrap().iter();
        let categories: Vec<_> = categories
            .map(|c| (c["id"].as_u64().unwrap(), c["name"].as_str().unwrap()))
            .collect();
        assert_eq!(
            categories,
            [(1, "circle"), (2, "square"), (3, "triangle"), (4, "cross")]
        );
        let listed = json["images"].as_array().unwrap();
        assert_eq!(listed.len(), images);
        // Each pixel of a class belongs to one object.
        let mut left = Vec::new();
        for (id, image) in listed.iter().enumerate() {
            assert_eq!(
                (
                    image["id"].as_u64(),
                    image["height"].as_u64(),
                    image["width"].as_u64()
                ),
                (Some(id as u64), Some(48), Some(48))
            );
            let name = image["file_name"].as_str().unwrap();
            assert_eq!(name, format!("{id:06}.png"));
            let picture = decode(
                &dir.join("images").join(split).join(name),
                ImageLimits::default(),
            )
            .unwrap();
            assert_eq!(picture.dimensions(), (side, side));
            left.push(grey(&dir.join("masks").join(split).join(name)));
        }
        for (number, annotation) in json["annotations"].as_array().unwrap().iter().enumerate() {
            assert_eq!(annotation["id"].as_u64(), Some(number as u64 + 1));
            let mask = &mut left[annotation["image_id"].as_u64().unwrap() as usize];
            let class = annotation["category_id"].as_u64().unwrap() as u8;
            let bbox: Vec<u32> = numbers(&annotation["bbox"]);
            let area = annotation["area"].as_u64().unwrap() as u32;
            groups += annotation["iscrowd"].as_u64().unwrap();
            let segmentation = &annotation["segmentation"];
            let pixels: Vec<bool> = if let Some(parts) = segmentation.as_array() {
                *forms.entry("polygon").or_insert(0) += 1;
                // The polygon alone says where the object is; pixels on its rim may differ by rounding, and for a circle.
                let corners: Vec<f64> = parts[0]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|n| n.as_f64().unwrap())
                    .collect();
                assert!(parts.len() == 1 && corners.len() >= 6);
                (0..side * side)
                    .map(|place| {
                        let (x, y) = (f64::from(place % side) + 0.5, f64::from(place / side) + 0.5);
                        let corner = |i: usize| {
                            (
                                corners[2 * i % corners.len()],
                                corners[(2 * i + 1) % corners.len()],
                            )
                        };
                        let crossings = (0..corners.len() / 2).filter(|&i| {
                            let ((ax, ay), (bx, by)) = (corner(i), corner(i + 1));
                            (ay > y) != (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax
                        });
                        let inside = crossings.count() % 2 == 1;
                        let is_class = mask.get_pixel(place % side, place / side).0 == [class];
                        let near = (0..corners.len() / 2).any(|i| {
                            let ((ax, ay), (bx, by)) = (corner(i), corner(i + 1));
                            let along = (((x - ax) * (bx - ax) + (y - ay) * (by - ay))
                                / ((bx - ax).powi(2) + (by - ay).powi(2)))
                            .clamp(0.0, 1.0);
                            (ax + along * (bx - ax) - x).hypot(ay + along * (by - ay) - y) < 0.1
                        });
                        if near { is_class } else { inside }
                    })
                    .collect()
            } else {
                let size = &segmentation["size"];
                assert_eq!(numbers::<u32>(size), [side, side]);
                let counts = &segmentation["counts"];
                let rle = if let Some(text) = counts.as_str() {
                    *forms.entry("text").or_insert(0) += 1;
                    Rle::from_text((side, side), text)
                } else {
                    *forms.entry("runs").or_insert(0) += 1;
                    Rle::new((side, side), numbers(counts))
                };
                rle.unwrap().decode()
            };
            let inside = |x: u32, y: u32| pixels[(y * side + x) as usize];
            let places = (0..side * side).map(|place| (place % side, place / side));
            let places: Vec<_> = places.filter(|&(x, y)| inside(x, y)).collect();
            if segmentation.is_array() {
                assert!(
                    area.abs_diff(places.len() as u32) <= 3,
                    "{area} {}",
                    places.len()
                );
            } else {
                assert_eq!(area as usize, places.len());
                let xs = || places.iter().map(|place| place.0);
                let ys = || places.iter().map(|place| place.1);
                let (x, y) = (xs().min().unwrap(), ys().min().unwrap());
                let ends = (xs().max().unwrap(), ys().max().unwrap());
                assert_eq!(bbox, [x, y, ends.0 - x + 1, ends.1 - y + 1]);
            }
            for (x, y) in places {
                let pixel = mask.get_pixel_mut(x, y);
                assert!([[class], [0]].contains(&pixel.0));
                taken += u32::from(pixel.0 == [0]);
                pixel.0 = [0];
            }
        }
        // Nothing of a class is left but rims of polygons.
        for mask in left {
            let rest = mask
                .pixels()
                .filter(|pixel| ![[0], [IGNORED]].contains(&pixel.0));
            assert!(rest.count() <= 3);
        }
    }
    for form in ["polygon", "runs", "text"] {
        assert!(forms[form] > 20, "{forms:?}");
    }
    assert!(taken < 10, "{taken}");
    assert!((1..15).contains(&groups), "{groups}");
}

/// Files that were written on several threads are those of a loop over the scenes.
#[test]
fn threads_do_not_change_a_byte() {
    let config = crowded();
    let (_temp, dir) = made(&config);
    for (split, images) in [(Split::Train, 80), (Split::Val, 20)] {
        let folder = |kind: &str| dir.join(kind).join(split.name());
        let mut objects = Vec::new();
        for index in 0..images {
            let scene = scene::render(&config, split, index);
            let image = folder("images").join(file_name(index));
            assert_eq!(decode(&image, ImageLimits::default()).unwrap(), scene.image);
            assert_eq!(grey(&folder("masks").join(file_name(index))), scene.labels);
            objects.push(scene.objects);
        }
        let written = fs_err::read(dir.join(format!("annotations/{}.json", split.name()))).unwrap();
        let expected = Annotations::new(&config, objects.into_iter());
        assert_eq!(written, serde_json::to_vec(&expected).unwrap());
    }
    let (_again, other) = made(&config);
    assert_eq!(hash_of(&dir), hash_of(&other));
}

#[test]
fn the_bytes_of_scenes_stay() {
    let config = ShapesConfig {
        train_per_class: 3,
        val_per_class: 1,
        ..crowded()
    };
    let (_temp, dir) = made(&config);
    assert_eq!(
        hash_of(&dir),
        "f9399e91dcf4fd470fc5f889616c5a8375587853353bca1b78bf3b91586cd421"
    );
}

#[test]
fn larger_sets_begin_with_the_smaller() {
    let larger = ShapesConfig {
        train_per_class: 30,
        ..crowded()
    };
    let (_a, small) = made(&crowded());
    let (_b, large) = made(&larger);
    for kind in ["images", "masks"] {
        let read = |dir: &Path| fs_err::read(dir.join(kind).join("train/000079.png")).unwrap();
        assert_eq!(read(&small), read(&large));
    }
    let all = |dir: &Path| {
        json(dir, "train")["annotations"]
            .as_array()
            .unwrap()
            .clone()
    };
    assert!(all(&large).starts_with(&all(&small)));
}

#[test]
fn each_class_comes_first_in_as_many_scenes() {
    let config = ShapesConfig {
        objects: [1, 1],
        occlusion: 0.0,
        ..crowded()
    };
    let (_temp, dir) = made(&config);
    let json = json(&dir, "val");
    let classes: Vec<_> = json["annotations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["category_id"].as_u64().unwrap())
        .collect();
    assert_eq!(classes, [1, 2, 3, 4].repeat(5));
}

#[test]
fn other_settings_are_refused_and_bad_ones_named() {
    let (_temp, dir) = made(&crowded());
    let refused = |config: ShapesConfig| {
        ensure(&config, &dir, &mut |_, _| {})
            .unwrap_err()
            .to_string()
    };
    assert!(!ensure(&crowded(), &dir, &mut |_, _| {}).unwrap().generated);
    let message = refused(ShapesConfig {
        objects: [2, 4],
        ..crowded()
    });
    assert!(
        message.contains("`objects` is [2, 5] there, [2, 4] here"),
        "{message}"
    );
    let message = refused(ShapesConfig {
        layout: Layout::Folder,
        ..crowded()
    });
    assert!(
        message.contains("`layout` is \"dense\" there, \"folder\" here"),
        "{message}"
    );
    let message = refused(ShapesConfig {
        objects: [3, 1],
        ..crowded()
    });
    assert_eq!(
        message,
        "`data.shapes.objects` is [3, 1]: expected the smaller value first"
    );
    let message = refused(ShapesConfig {
        radius: [0.3, 0.6],
        ..crowded()
    });
    assert_eq!(
        message,
        "`data.shapes.radius` is 0.6: expected a float in [0.02, 0.5]"
    );
    let message = refused(ShapesConfig {
        radius: [0.3, 0.2],
        ..crowded()
    });
    assert_eq!(
        message,
        "`data.shapes.radius` is [0.3, 0.2]: expected the smaller value first"
    );
    let message = refused(ShapesConfig {
        classes: 0,
        ..crowded()
    });
    assert_eq!(
        message,
        "`data.shapes.classes` is 0: expected an integer in [2, 10]"
    );
}

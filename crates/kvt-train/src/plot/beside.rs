//! Several pictures combined into one.

/// Pictures of [`Chart`](super::Chart) of one width and height, in rows of `columns`.
pub fn beside(pictures: &[String], columns: usize, (width, height): (u32, u32)) -> String {
    let [width, height] = [width, height].map(|side| side as usize);
    let columns = columns.clamp(1, pictures.len().max(1));
    let rows = pictures.len().div_ceil(columns);
    let (all_width, all_height) = (columns * width, rows * height);
    let mut text = format!(
        "<svg width=\"{all_width}\" height=\"{all_height}\" viewBox=\"0 0 {all_width} {all_height}\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    for (number, picture) in pictures.iter().enumerate() {
        let (x, y) = (number % columns * width, number / columns * height);
        // Nested pictures are placed by their own attributes.
        text += &picture.replacen("<svg ", &format!("<svg x=\"{x}\" y=\"{y}\" "), 1);
        text.push('\n');
    }
    text + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stand_in_rows() {
        let pictures =
            ["a", "b", "c"].map(|name| format!("<svg width=\"800\"><svg id=\"{name}\"/></svg>"));
        let all = beside(&pictures, 2, (800, 500));
        assert!(all.starts_with("<svg width=\"1600\" height=\"1000\" "));
        for (name, place) in [
            ("a", "x=\"0\" y=\"0\""),
            ("b", "x=\"800\" y=\"0\""),
            ("c", "x=\"0\" y=\"500\""),
        ] {
            let placed = format!("<svg {place} width=\"800\"><svg id=\"{name}\"/></svg>");
            assert!(all.contains(&placed), "{all}");
        }
        assert!(beside(&[], 2, (800, 500)).contains("height=\"0\""));
    }
}

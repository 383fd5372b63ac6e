//! The size of the images of a model.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;

/// Height and width of images in pixels, as timm's `img_size`: written as one number if they are equal, else as a list of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "OneOrBoth", into = "OneOrBoth")]
pub struct ImgSize {
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
}

/// How it is written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected one number, or a list of height and width"
)]
enum OneOrBoth {
    One(usize),
    Both([usize; 2]),
}

impl ImgSize {
    /// The side of a square; of another rectangle the shorter side.
    pub fn side(self) -> usize {
        self.height.min(self.width)
    }

    /// Height and width.
    pub fn sides(self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// Whether height and width are equal.
    pub fn is_square(self) -> bool {
        self.height == self.width
    }

    /// As `model.img_size` is written in TOML: `224`, or `[64, 96]`.
    pub fn toml(self) -> String {
        if self.is_square() {
            self.height.to_string()
        } else {
            format!("[{}, {}]", self.height, self.width)
        }
    }
}

impl From<usize> for ImgSize {
    fn from(side: usize) -> Self {
        [side; 2].into()
    }
}

impl From<[usize; 2]> for ImgSize {
    fn from([height, width]: [usize; 2]) -> Self {
        Self { height, width }
    }
}

impl From<OneOrBoth> for ImgSize {
    fn from(written: OneOrBoth) -> Self {
        match written {
            OneOrBoth::One(side) => side.into(),
            OneOrBoth::Both(sides) => sides.into(),
        }
    }
}

impl From<ImgSize> for OneOrBoth {
    fn from(size: ImgSize) -> Self {
        if size.is_square() {
            Self::One(size.height)
        } else {
            Self::Both([size.height, size.width])
        }
    }
}

/// As in names: `224`, or `64x96`.
impl fmt::Display for ImgSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.height)?;
        if self.is_square() {
            return Ok(());
        }
        write!(f, "x{}", self.width)
    }
}

/// As it is shown; of a square also both sides.
impl FromStr for ImgSize {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let (height, width) = text.split_once('x').unwrap_or((text, text));
        let side = |number: &str| {
            // `parse` would take a sign.
            let has_digits_alone = number.bytes().all(|byte| byte.is_ascii_digit());
            let side = number.parse::<u32>().ok().filter(|_| has_digits_alone);
            side.ok_or_else(|| ModelError::NoSize(text.to_owned()))
        };
        Ok(Self {
            height: side(height)? as usize,
            width: side(width)? as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, from_str, from_value, json, to_value};

    use super::*;

    #[test]
    fn a_square_is_one_number_and_another_rectangle_two() {
        for (written, height, width, shown) in [
            (json!(224), 224, 224, "224"),
            (json!([64, 96]), 64, 96, "64x96"),
            (json!([96, 64]), 96, 64, "96x64"),
        ] {
            let size: ImgSize = from_value(written.clone()).unwrap();
            assert_eq!(
                (size.sides(), size.to_string()),
                ((height, width), shown.to_owned())
            );
            assert_eq!(to_value(size).unwrap(), written);
            assert_eq!(shown.parse::<ImgSize>(), Ok(size));
            assert_eq!(from_str::<Value>(&size.toml()).unwrap(), written);
        }
        assert_eq!("64x64".parse::<ImgSize>(), Ok(ImgSize::from(64)));
        for text in [
            "",
            "x",
            "64x",
            "x64",
            "64X96",
            "64x96x3",
            "-1",
            "+64",
            "18446744073709551615",
            "64 x 96",
            "[64, 96]",
        ] {
            let refused = Err(ModelError::NoSize(text.to_owned()));
            assert_eq!(text.parse::<ImgSize>(), refused);
        }
        let square: ImgSize = from_value(json!([32, 32])).unwrap();
        assert_eq!((square, to_value(square).unwrap()), (32.into(), json!(32)));
        for refused in [json!([64]), json!([64, 96, 3]), json!(-1), json!("64x96")] {
            let error = from_value::<ImgSize>(refused.clone())
                .unwrap_err()
                .to_string();
            assert_eq!(
                error, "expected one number, or a list of height and width",
                "{refused}"
            );
        }
    }
}

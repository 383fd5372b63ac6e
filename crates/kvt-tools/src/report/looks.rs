//! Lines of a plot that share a look: those of the same numbers, and those of one model with two kinds of attention.

use super::labels::in_words;
use super::series::Series;
use crate::groups::unique;
use kvt_train::plot::color;

/// Lines of the same numbers hide each other, so they are drawn as one with the names of all.
pub(super) fn joined(series: Vec<Series>) -> Vec<Series> {
    let mut all: Vec<(Series, Vec<String>)> = Vec::new();
    for line in series {
        let name = line.name.clone();
        let same = |(other, _): &&mut (Series, Vec<String>)| {
            other.dashed == line.dashed && other.line == line.line && other.band == line.band
        };
        match all.iter_mut().find(same) {
            Some((_, names)) => names.push(name),
            None => all.push((line, vec![name])),
        }
    }
    let named = |(line, names): (Series, Vec<String>)| Series {
        name: in_words(&names),
        ..line
    };
    all.into_iter().map(named).collect()
}

/// Where several models are each trained with dense and with k-NN attention, and nothing else is dashed: a colour for each model,
/// solid for dense and dashed for k-NN attention.
pub(super) fn paired(mut series: Vec<Series>) -> Vec<Series> {
    let found: Option<Vec<(String, bool)>> = series.iter().map(|line| pair(&line.name)).collect();
    let Some(found) = found else {
        return series;
    };
    let models = unique(found.iter().map(|(model, _)| model.as_str()));
    let is_whole = |model: &&str| {
        let kinds = found.iter().filter(|(other, _)| other == model);
        let kinds: Vec<bool> = kinds.map(|(_, is_knn)| *is_knn).collect();
        kinds.len() == 2 && kinds[0] != kinds[1]
    };
    if models.len() < 2 || !models.iter().all(is_whole) || series.iter().any(|line| line.dashed) {
        return series;
    }
    for (line, (model, is_knn)) in series.iter_mut().zip(&found) {
        let number = models.iter().position(|other| other == model);
        line.color = color(number.unwrap_or_default());
        line.dashed = *is_knn;
    }
    series
}

/// The name of a model without its attention, and whether that is k-NN attention; `None` if the name says neither.
fn pair(name: &str) -> Option<(String, bool)> {
    let words: Vec<&str> = name
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let place = words
        .iter()
        .position(|word| ["dense", "knn"].contains(word))?;
    let model = words.iter().enumerate().filter(|(at, _)| *at != place);
    let model: Vec<&str> = model.map(|(_, word)| *word).collect();
    Some((model.join(" "), words[place] == "knn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_with_both_attentions_have_a_colour_each() {
        let looks = |names: &[&str]| {
            let lines = (0..).zip(names).map(|(number, name)| Series {
                name: (*name).to_owned(),
                number,
                color: color(number),
                dashed: false,
                line: vec![(1, 1.0)],
                band: Vec::new(),
                spreads: Vec::new(),
            });
            let lines = paired(lines.collect());
            let looks = lines.iter().map(|line| (line.color, line.dashed));
            looks.collect::<Vec<_>>()
        };
        assert_eq!(
            looks(&["t2t_dense", "t2t_knn", "Twins, dense", "Twins, knn"]),
            [
                (color(0), false),
                (color(0), true),
                (color(1), false),
                (color(1), true)
            ]
        );
        // One model, a model without its partner, and names that say nothing keep their colours.
        for names in [
            &["dense", "knn"][..],
            &["a-dense", "b-dense", "b-knn"],
            &["a", "b"],
        ] {
            let own = (0..names.len()).map(|number| (color(number), false));
            assert_eq!(looks(names), own.collect::<Vec<_>>(), "{names:?}");
        }
    }
}

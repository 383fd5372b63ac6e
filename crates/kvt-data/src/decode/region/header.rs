//! The segments before the coded data of a JPEG.

use super::bits::Codes;

/// A colour component of the image.
#[derive(Clone, Copy)]
pub(super) struct Component {
    id: u8,
    /// Its blocks per unit, horizontally and vertically.
    pub(super) blocks: (usize, usize),
    pub(super) table: usize,
    pub(super) dc: usize,
    pub(super) ac: usize,
}

/// A sequential JPEG with three colours in one scan.
pub(super) struct Header<'a> {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) components: [Component; 3],
    /// Quantisation steps, in zigzag order.
    pub(super) tables: [Option<[f32; 64]>; 4],
    pub(super) dc: [Option<Codes>; 4],
    pub(super) ac: [Option<Codes>; 4],
    /// Units between restart markers; 0 for none.
    pub(super) restart: usize,
    /// The coded data and what follows it.
    pub(super) data: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` for every other kind of JPEG, and for a damaged one.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
        let mut frame: Option<(u32, u32, [Component; 3])> = None;
        let mut tables = [None; 4];
        let (mut dc, mut ac) = ([const { None }; 4], [const { None }; 4]);
        let mut restart = 0;
        loop {
            let marker = match rest {
                [0xff, 0xff, ..] => {
                    rest = &rest[1..];
                    continue;
                }
                [0xff, marker, ..] => *marker,
                _ => return None,
            };
            let length = u16::from_be_bytes(*rest.get(2..)?.first_chunk()?);
            let segment = rest.get(4..2 + usize::from(length))?;
            rest = rest.get(2 + usize::from(length)..)?;
            match marker {
                0xdb => quantisation(segment, &mut tables)?,
                0xc4 => codes(segment, &mut dc, &mut ac)?,
                0xc0 | 0xc1 if frame.is_none() => frame = Some(frame_of(segment)?),
                0xdd => restart = u16::from_be_bytes(*segment.first_chunk()?).into(),
                0xda => {
                    let (width, height, mut components) = frame?;
                    scan(segment, &mut components)?;
                    return Some(Self {
                        width,
                        height,
                        components,
                        tables,
                        dc,
                        ac,
                        restart,
                        data: rest,
                    });
                }
                0xe0..=0xef | 0xfe => {}
                _ => return None,
            }
        }
    }
}

fn quantisation(mut segment: &[u8], tables: &mut [Option<[f32; 64]>; 4]) -> Option<()> {
    while let Some((&kind, rest)) = segment.split_first() {
        let wide = kind >> 4;
        let size = match wide {
            0 => 64,
            1 => 128,
            _ => return None,
        };
        let (steps, rest) = rest.split_at_checked(size)?;
        let table = std::array::from_fn(|place| {
            f32::from(match wide {
                0 => u16::from(steps[place]),
                _ => u16::from_be_bytes([steps[2 * place], steps[2 * place + 1]]),
            })
        });
        *tables.get_mut(usize::from(kind & 15))? = Some(table);
        segment = rest;
    }
    Some(())
}

fn codes(
    mut segment: &[u8],
    dc: &mut [Option<Codes>; 4],
    ac: &mut [Option<Codes>; 4],
) -> Option<()> {
    while let Some((&kind, rest)) = segment.split_first() {
        let (counts, rest) = rest.split_first_chunk::<16>()?;
        let count = counts.iter().map(|&count| usize::from(count)).sum();
        let (symbols, rest) = rest.split_at_checked(count)?;
        let tables = match kind >> 4 {
            0 => &mut *dc,
            1 => &mut *ac,
            _ => return None,
        };
        *tables.get_mut(usize::from(kind & 15))? = Some(Codes::new(counts, symbols)?);
        segment = rest;
    }
    Some(())
}

fn frame_of(segment: &[u8]) -> Option<(u32, u32, [Component; 3])> {
    let [8, h0, h1, w0, w1, 3, rest @ ..] = segment else {
        return None;
    };
    let (width, height) = (
        u16::from_be_bytes([*w0, *w1]),
        u16::from_be_bytes([*h0, *h1]),
    );
    let (parts, []) = rest.as_chunks::<3>() else {
        return None;
    };
    let components = parts.iter().map(|&[id, sampling, table]| {
        let blocks = (usize::from(sampling >> 4), usize::from(sampling & 15));
        let fits = (1..=2).contains(&blocks.0) && (1..=2).contains(&blocks.1) && table < 4;
        fits.then_some(Component {
            id,
            blocks,
            table: table.into(),
            dc: 0,
            ac: 0,
        })
    });
    let components: Option<Vec<Component>> = components.collect();
    let components: [Component; 3] = components?.try_into().ok()?;
    if width == 0 || height == 0 {
        return None;
    }
    Some((width.into(), height.into(), components))
}

fn scan(segment: &[u8], components: &mut [Component; 3]) -> Option<()> {
    let [3, a, b, c, d, e, f, 0, 63, 0] = segment else {
        return None;
    };
    for (component, (id, tables)) in components.iter_mut().zip([(a, b), (c, d), (e, f)]) {
        if component.id != *id {
            return None;
        }
        component.dc = usize::from(tables >> 4);
        component.ac = usize::from(tables & 15);
    }
    Some(())
}

//! The coded data of a scan as bits, and the Huffman codes in it.

/// Bits that are looked up at a time.
const LOOK: u32 = 10;

/// The bits of a scan's coded data. After its end there are zeros; [`overrun`](Self::overrun) reports whether any of
/// them were used.
pub(super) struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    /// The next bits, the first one in the most significant position.
    buffer: u64,
    count: u32,
    /// Number of zero bits that were added after the end.
    padding: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self {
            data,
            at: 0,
            buffer: 0,
            count: 0,
            padding: 0,
        }
    }

    /// Fills the buffer to at least 32 bits.
    #[inline(always)]
    fn fill(&mut self) {
        if self.count >= 32 {
            return;
        }
        // The most frequent case: four bytes without a marker or a stuffed byte.
        if let Some(four) = self
            .data
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<4>())
        {
            let word = u32::from_be_bytes(*four);
            // A byte is 0xff if its complement is zero.
            let inverted = !word;
            if inverted.wrapping_sub(0x0101_0101) & word & 0x8080_8080 == 0 {
                self.buffer |= u64::from(word) << (32 - self.count);
                self.count += 32;
                self.at += 4;
                return;
            }
        }
        self.fill_slowly();
    }

    #[cold]
    #[inline(never)]
    fn fill_slowly(&mut self) {
        while self.count <= 56 {
            let byte = match self.data.get(self.at) {
                Some(0xff) if self.data.get(self.at + 1) == Some(&0) => {
                    self.at += 2;
                    0xff
                }
                // A marker, or the end.
                Some(0xff) | None => {
                    self.padding += 8;
                    0
                }
                Some(&byte) => {
                    self.at += 1;
                    byte
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// Whether bits after the end were used.
    pub(super) fn overrun(&self) -> bool {
        self.padding > self.count
    }

    #[inline(always)]
    fn peek(&self, bits: u32) -> usize {
        (self.buffer >> (64 - bits)) as usize
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count -= bits;
    }

    /// A number with `bits` bits, 1 to 16, in the JPEG coding of differences and coefficients (F.12).
    #[inline(always)]
    fn number(&mut self, bits: u32) -> i32 {
        let value = self.peek(bits) as i32;
        self.skip(bits);
        extend(value, bits)
    }

    /// Continues after the restart marker that must be next.
    pub(super) fn restart(&mut self) -> Option<()> {
        // The remaining bits in the buffer must be the rest of the last byte, or padding.
        let read_ahead = self.count.saturating_sub(self.padding) / 8;
        if read_ahead > 0 || self.overrun() {
            return None;
        }
        let marker = self.data.get(self.at..)?.first_chunk::<2>()?;
        if !matches!(marker, [0xff, 0xd0..=0xd7]) {
            return None;
        }
        *self = Self {
            at: self.at + 2,
            ..Self::new(self.data)
        };
        Some(())
    }
}

fn extend(value: i32, bits: u32) -> i32 {
    if value < 1 << (bits - 1) {
        value - (1 << bits) + 1
    } else {
        value
    }
}

/// The result of looking up the next bits.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The value of the coefficient, if its bits are among those looked up.
    value: i16,
    /// The symbol.
    symbol: u8,
    /// Number of bits of the code, and of the value if it is included; 0 for a longer code.
    bits: u8,
    has_value: bool,
}

/// A table of Huffman codes.
pub(super) struct Codes {
    look: Box<[Entry; 1 << LOOK]>,
    /// For each length, the first number after its codes, as 16 bits.
    ends: [u32; 17],
    /// For each length, the number that is added to a code to get the index of its symbol.
    offsets: [i32; 17],
    symbols: Vec<u8>,
}

impl Codes {
    /// From the number of codes of each length, and the symbols in order; `None` if such codes do not exist.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut this = Self {
            look: Box::new([Entry::default(); 1 << LOOK]),
            ends: [0; 17],
            offsets: [0; 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut place) = (0_u32, 0_usize);
        for (length, &count) in (1_u32..).zip(counts) {
            this.offsets[length as usize] = place as i32 - code as i32;
            for _ in 0..count {
                let symbol = *symbols.get(place)?;
                if code >= 1 << length {
                    return None;
                }
                if length <= LOOK {
                    let first = (code << (LOOK - length)) as usize;
                    let entries = this.look.get_mut(first..first + (1 << (LOOK - length)))?;
                    for (rest, entry) in (0_u32..).zip(entries) {
                        *entry = Entry::of(symbol, length, rest);
                    }
                }
                code += 1;
                place += 1;
            }
            this.ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        Some(this)
    }

    /// The next symbol.
    #[inline(always)]
    fn symbol(&self, bits: &mut Bits<'_>) -> Option<u8> {
        let next = bits.peek(16) as u32;
        let length = (1..=16).find(|&length| next < self.ends[length])?;
        bits.skip(length as u32);
        let place = (next >> (16 - length)) as i32 + self.offsets[length];
        self.symbols.get(usize::try_from(place).ok()?).copied()
    }

    /// The difference between a block's mean and that of the previous block.
    #[inline(always)]
    pub(super) fn difference(&self, bits: &mut Bits<'_>) -> Option<i32> {
        bits.fill();
        match self.symbol(bits)? {
            0 => Some(0),
            size @ 1..=15 => Some(bits.number(size.into())),
            _ => None,
        }
    }

    /// Reads the coefficients of a block except the first, and calls `found` with (position in zigzag order, value) for each nonzero one.
    #[inline(always)]
    pub(super) fn coefficients(
        &self,
        bits: &mut Bits<'_>,
        mut found: impl FnMut(usize, i32),
    ) -> Option<()> {
        let mut place = 1;
        while place < 64 {
            bits.fill();
            let entry = self.look[bits.peek(LOOK)];
            let (symbol, value) = if entry.has_value {
                bits.skip(entry.bits.into());
                (entry.symbol, i32::from(entry.value))
            } else {
                let symbol = match entry.bits {
                    0 => self.symbol(bits)?,
                    length => {
                        bits.skip(length.into());
                        entry.symbol
                    }
                };
                match symbol & 15 {
                    0 if symbol == 0xf0 => {
                        place += 16;
                        continue;
                    }
                    0 => return Some(()),
                    size => (symbol, bits.number(size.into())),
                }
            };
            place += usize::from(symbol >> 4);
            if place > 63 {
                return None;
            }
            found(place, value);
            place += 1;
        }
        (place == 64).then_some(())
    }
}

impl Entry {
    /// For a symbol with a code of `length` bits, followed by `rest` in the remaining bits of the lookup.
    fn of(symbol: u8, length: u32, rest: u32) -> Self {
        let (left, size) = (LOOK - length, u32::from(symbol & 15));
        let bits = length as u8;
        if size == 0 || size > left {
            return Self {
                symbol,
                bits,
                ..Self::default()
            };
        }
        let value = extend((rest >> (left - size)) as i32, size);
        Self {
            value: value as i16,
            symbol,
            bits: bits + size as u8,
            has_value: true,
        }
    }
}

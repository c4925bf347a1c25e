//! Owns the generator of a run: what it gives depends on the seed alone. No clock, no thread, no other source.

/// A xorshift generator.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator of its own for each seed and purpose.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        // Spread: neighbours must not begin alike, and zero would stay zero.
        let mixed = (seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (purpose.wrapping_add(1)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut rng = Self(mixed | 1);
        for _ in 0..8 {
            rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// True so many times of a hundred.
    pub(crate) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One of these.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

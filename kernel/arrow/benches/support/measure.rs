//! Timing by the thread's CPU clock, contenders in turn: other work on the machine then falls on all alike.

/// Something that is measured, and how much of a unit (bytes or records) each run of it handles.
pub struct Contender<'a> {
    pub name: &'a str,
    pub units: usize,
    pub run: Box<dyn FnMut() + 'a>,
}

impl<'a> Contender<'a> {
    pub fn new(name: &'a str, units: usize, run: impl FnMut() + 'a) -> Self {
        Contender { name, units, run: Box::new(run) }
    }
}

/// Nanoseconds per unit of each contender: the least of `rounds` runs, after one that warms up.
pub fn in_turn(contenders: &mut [Contender], rounds: usize) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; contenders.len()];
    for round in 0..=rounds {
        for (contender, least) in contenders.iter_mut().zip(&mut least) {
            let started = thread_nanoseconds();
            (contender.run)();
            let elapsed = thread_nanoseconds() - started;
            if round > 0 {
                *least = least.min(elapsed / contender.units as f64);
            }
        }
    }
    least
}

fn thread_nanoseconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid; the clock exists on every supported system.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Ratios of one kind of work, for the line that names the worst.
#[derive(Default)]
pub struct Ratios(Vec<(f64, String)>);

impl Ratios {
    /// How many times faster than the library the kernel is, and where.
    pub fn add(&mut self, ratio: f64, place: String) {
        self.0.push((ratio, place));
    }

    pub fn print_worst(&self, work: &str) {
        if let Some((ratio, place)) = self.0.iter().min_by(|one, other| one.0.total_cmp(&other.0)) {
            println!("worst of {work}: {ratio:.2} times the library's speed ({place})");
        }
    }
}

/// The arguments that select what runs: without any, everything. (Cargo adds --bench.)
pub fn is_selected(name: &str) -> bool {
    let mut wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    wanted.peek().is_none() || wanted.any(|argument| name.contains(&argument))
}

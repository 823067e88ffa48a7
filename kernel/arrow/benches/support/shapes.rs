//! Records of many shapes. Which of two block readers or writers is faster depends on how long the matches and literals
//! of a block are, so that no single kind of data can tell.

/// Splitmix64.
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Small numbers far more often than large ones, as the ranks of words.
    fn rank_below(&mut self, bound: usize) -> usize {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((bound as f64).powf(uniform) - 1.0) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn noise(&mut self, characters: usize) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        (0..characters).map(|_| char::from(LETTERS[self.below(64)])).collect()
    }
}

/// A shape: its name, and the value of the record with this number.
pub struct Shape {
    pub name: &'static str,
    value: fn(&mut Random, usize) -> Vec<u8>,
}

pub const SHAPES: [Shape; 10] = [
    Shape { name: "small100", value: |random, _| order(random, 100) },
    Shape { name: "kb1", value: |random, _| order(random, 1024) },
    Shape { name: "access-log", value: access_log },
    Shape { name: "optional-json", value: optional_json },
    Shape { name: "nested-json", value: nested_json },
    Shape { name: "english", value: english },
    Shape { name: "avro", value: avro },
    Shape { name: "tokens", value: tokens },
    Shape { name: "random", value: |random, _| (0..100).map(|_| random.next() as u8).collect() },
    Shape { name: "zeros", value: |_, _| vec![0; 100] },
];

impl Shape {
    /// Values of `bytes` bytes together, or a little more; the same ones at every call.
    pub fn values(&self, bytes: usize) -> Vec<Vec<u8>> {
        let mut random = Random(1);
        let (mut values, mut filled) = (Vec::new(), 0);
        while filled < bytes {
            let value = (self.value)(&mut random, values.len());
            filled += value.len();
            values.push(value);
        }
        values
    }
}

/// What CorpusWriter.java sends: alike, with noise at fixed places.
fn order(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut value = String::new();
    while value.len() < bytes {
        let (user, item) = (random.noise(14), random.noise(14));
        let state = random.pick(&["created", "paid", "shipped", "delivered", "returned", "cancelled"]);
        value +=
            &format!("{{\"user\":\"{user}\",\"state\":\"{state}\",\"item\":\"{item}\",\"region\":\"eu-west-1\"}}\n");
    }
    value.truncate(bytes);
    value.into()
}

fn access_log(random: &mut Random, number: usize) -> Vec<u8> {
    const AGENTS: [&str; 4] = [
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
        "curl/8.8.0",
    ];
    let address = format!("10.{}.{}.{}", random.below(4), random.below(256), random.below(256));
    let method = random.pick(&["GET", "GET", "GET", "POST", "PUT"]);
    let path = random.pick(&["/", "/cart", "/api/v1/items/", "/api/v1/users/", "/static/app.js", "/search?q="]);
    let (id, status) = (random.below(100_000), random.pick(&["200", "200", "200", "304", "404", "500"]));
    let (size, agent) = (random.rank_below(100_000), random.pick(&AGENTS));
    let (minute, second) = (number / 600 % 60, number / 10 % 60);
    format!(
        "{address} - - [22/Nov/2025:13:{minute:02}:{second:02} +0000] \"{method} {path}{id} HTTP/1.1\" {status} {size} \"-\" \
         \"{agent}\""
    )
    .into()
}

/// Flat objects that leave out some of their fields.
fn optional_json(random: &mut Random, number: usize) -> Vec<u8> {
    let mut value = format!("{{\"id\":{}", 1_000_000 + number);
    const FIELDS: [&str; 12] =
        ["name", "email", "age", "city", "zip", "score", "active", "plan", "referrer", "device", "amount", "currency"];
    for field in FIELDS {
        if random.one_in(2) {
            continue;
        }
        value += &format!(",\"{field}\":");
        value += &match random.below(4) {
            0 => random.below(100_000).to_string(),
            1 => random.pick(&["true", "false", "null"]).to_string(),
            2 => format!("\"{}\"", word(random.rank_below(2000))),
            _ => format!("{}.{:02}", random.below(1000), random.below(100)),
        };
    }
    (value + "}").into()
}

/// Deep objects that describe an API: long repetitions, from near and far.
fn nested_json(random: &mut Random, _: usize) -> Vec<u8> {
    let name = |random: &mut Random| -> String {
        let capitalized = |word: String| word[..1].to_uppercase() + &word[1..];
        (0..2).map(|_| capitalized(word(random.rank_below(600)))).collect()
    };
    let mut value = format!("    \"{}\":{{\n      \"type\":\"structure\",\n", name(random));
    if random.one_in(3) {
        value += &format!("      \"required\":[\"{}\"],\n", name(random));
    }
    value += "      \"members\":{\n";
    for member in 0..1 + random.below(6) {
        if member > 0 {
            value += ",\n";
        }
        value += &format!("        \"{}\":{{\n          \"shape\":\"{}\"", name(random), name(random));
        if random.one_in(2) {
            let words: Vec<String> = (0..4 + random.below(12)).map(|_| word(random.rank_below(3000))).collect();
            value += &format!(",\n          \"documentation\":\"<p>The {}.</p>\"", words.join(" "));
        }
        if random.one_in(4) {
            value +=
                &format!(",\n          \"location\":\"querystring\",\n          \"locationName\":\"{}\"", name(random));
        }
        value += "\n        }";
    }
    (value + "\n      }\n    },").into()
}

/// Sentences of words that are as frequent as in English.
fn english(random: &mut Random, _: usize) -> Vec<u8> {
    let mut value = String::new();
    for _ in 0..1 + random.below(4) {
        for position in 0..4 + random.below(20) {
            let word = word(random.rank_below(8000));
            match position {
                0 => value += &(word[..1].to_uppercase() + &word[1..]),
                _ => value += &format!("{}{word}", if random.one_in(9) { ", " } else { " " }),
            }
        }
        value += ". ";
    }
    value.into()
}

/// A word made of syllables; those of low rank are short.
fn word(rank: usize) -> String {
    const SYLLABLES: [&str; 32] = [
        "the", "a", "in", "to", "er", "re", "on", "ti", "con", "de", "at", "or", "is", "en", "al", "ment", "ly", "st",
        "pro", "ing", "ver", "it", "com", "per", "an", "ous", "un", "ble", "ed", "tion", "ma", "es",
    ];
    let mut mixed = Random(rank as u64);
    let count = 1 + (rank > 12) as usize + (rank > 200) as usize + mixed.below(2) * (rank > 30) as usize;
    (0..count).map(|_| SYLLABLES[mixed.below(32)]).collect()
}

/// Records that are alike, with much noise in each.
fn tokens(random: &mut Random, number: usize) -> Vec<u8> {
    let (token, user) = (random.noise(86), random.below(100_000));
    format!("{{\"token\":\"{token}\",\"user\":\"u{user:05}\",\"issued\":{}}}", 1_767_225_600_000 + 7 * number).into()
}

/// Varints, doubles, short strings and enumerations, as Avro encodes them without names.
fn avro(random: &mut Random, number: usize) -> Vec<u8> {
    let mut value = vec![0, 0, 0, 0, 42]; // the schema's id
    let varint = |value: &mut Vec<u8>, mut number: u64| {
        while number >= 0x80 {
            value.push(number as u8 | 0x80);
            number >>= 7;
        }
        value.push(number as u8);
    };
    varint(&mut value, 2 * (1_700_000_000_000 + 7 * number as u64));
    varint(&mut value, random.next() >> 44);
    for _ in 0..2 {
        let text = word(random.rank_below(1000));
        varint(&mut value, 2 * text.len() as u64);
        value.extend(text.bytes());
    }
    value.extend((random.below(100_000) as f64 / 100.0).to_le_bytes());
    for _ in 0..6 {
        value.push(2 * random.below(4) as u8);
    }
    if random.one_in(2) {
        varint(&mut value, 2 * 16);
        value.extend((0..16).map(|_| random.next() as u8));
    } else {
        value.push(0);
    }
    value.extend(b"\x14production\x12eu-west-1\x00\x00\x02\x02\x04");
    value
}

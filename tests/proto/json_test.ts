import assert from "node:assert/strict";
import fc from "fast-check";
import * as z from "zod";
import { formatExact, hasMoreMarks, parseExact, parseStrict } from "../../proto/json.ts";
import { text, u64 } from "../../proto/text.ts";

const MIB = 1024 * 1024;

const READ = {
  "a number": "1",
  "an exponent": "1e3",
  "minus zero": "-0",
  "text": '"a"',
  "null": "null",
  "white space": ' {\t"a" :\r\n[ 1 , 2 ] } ',
  "another key order": '{"b":1,"a":2}',
  "equal keys in two objects": '[{"a":1},{"a":1}]',
  "equal keys at two depths": '{"a":{"a":{"a":1}}}',
  "a value equal to a key": '{"a":"a","b":"a"}',
  "an empty key": '{"":1,"a":""}',
  "a key that looks like a string in a string": '{"a":"\\"a\\":1","b":1}',
  "brackets in strings": '{"a":"}{][","b":"]"}',
  "a colon in a string": '{"a":"b:","c":":"}',
  "equal strings in a list": '["a","a"]',
  "keys that differ in case": '{"a":1,"A":2}',
  "keys that differ in normal form": '{"\\u00e9":1,"e\\u0301":2}',
  "backslashes before a quote": '{"a\\\\":1,"a\\\\\\\\":2}',
  "a pair of surrogates": '"\\ud83d\\ude00"',
  "a key after a list": '{"a":[{"b":1}],"b":2}',
  "__proto__ as a key": '{"__proto__":1}',
  "NUL escaped": '"\\u0000"',
} as const;

const REFUSED = {
  "nothing": "",
  "white space alone": " \n",
  "two values": "1 2",
  "a comma too many": '{"a":1,}',
  "a comment": "1//",
  "single quotes": "{'a':1}",
  "a bare key": "{a:1}",
  "a control character": '"\n"',
  "NaN": "NaN",
  "a plus": "+1",
  "a leading zero": "01",
  "a byte-order mark": "\ufeff1",
  "a no-break space": "\u00a01",
  "equal keys": '{"a":1,"a":1}',
  "equal keys far apart": '{"a":1,"b":{"c":[{"d":1}]},"a":2}',
  "equal keys inside": '[[{"x":{"a":1,"b":2,"a":3}}]]',
  "equal keys, one escaped": '{"path":1,"p\\u0061th":2}',
  "equal keys, escaped in two ways": '{"\\u005c":1,"\\\\":2}',
  "equal empty keys": '{"":1,"":2}',
  "equal keys around an object": '{"a":{"b":1},"a":1}',
  "equal keys with white space": '{"a" : 1 , "a"\n:\n2}',
  "__proto__ twice": '{"__proto__":1,"__proto__":2}',
  "a lone high surrogate": '"\\ud800"',
  "a lone low surrogate": '{"a":["x\\udc00"]}',
  "surrogates the wrong way round": '"\\ude00\\ud83d"',
  "a lone surrogate in a key": '{"\\udfff":1}',
  "a lone surrogate that is not escaped": '"\ud800"',
} as const;

for (const [what, json] of Object.entries(READ)) {
  Deno.test(`parseStrict reads ${what}`, { permissions: "none" }, () => {
    assert.deepEqual(parseStrict(json), JSON.parse(json));
    assert.notEqual(parseStrict(json), undefined);
  });
}
for (const [what, json] of Object.entries(REFUSED)) {
  Deno.test(`parseStrict refuses ${what}`, { permissions: "none" }, () => {
    assert.equal(parseStrict(json), undefined);
  });
}

const wellFormed = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.string({ unit: "binary" }),
  fc.constantFrom("", '"', "\\", '\\"', "{", "}", ":", ",", "a", "__proto__", "\n"),
);
/** Any JSON value; its keys and strings need every kind of escape. */
const { value: anyJson } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    wellFormed,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
    fc.constantFrom(null, true, false),
    fc.array(tie("value"), { maxLength: 5 }),
    fc.dictionary(wellFormed, tie("value"), { maxKeys: 5 }),
  ),
}));

/** Writes a string with every character escaped. */
const escaped = (value: string) =>
  `"${
    Array.from({ length: value.length }, (_, at) =>
      `\\u${value.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")
  }"`;

Deno.test(
  "parseStrict agrees with JSON.parse where no key is double",
  { permissions: "none" },
  () => {
    fc.assert(fc.property(anyJson, fc.constantFrom(undefined, 1, "\t"), (value, space) => {
      const json = JSON.stringify(value, null, space);
      assert.deepEqual(parseStrict(json), JSON.parse(json));
    }));
  },
);

Deno.test(
  "parseStrict finds a double key at any depth, escaped or not",
  { permissions: "none" },
  () => {
    const wrap = fc.array(fc.tuple(fc.boolean(), wellFormed), { maxLength: 8 });
    fc.assert(fc.property(
      ...[wellFormed, anyJson, fc.array(anyJson, { maxLength: 4 }), wrap, fc.boolean()] as const,
      (key, value, between, wrappings, escape) => {
        const other = between.map((one, n) =>
          `${JSON.stringify(`${key}${n}`)}:${JSON.stringify(one)},`
        );
        const again = escape ? escaped(key) : JSON.stringify(key);
        const inside = (second: string) =>
          wrappings.reduce(
            (json, [list, name]) => list ? `[1,${json},2]` : `{${JSON.stringify(name)}: ${json}}`,
            `{${JSON.stringify(key)}:${JSON.stringify(value)},${other.join("")}${second}:0}`,
          );
        assert.equal(parseStrict(inside(again)), undefined);
        const single = inside(JSON.stringify(`${key}!`));
        assert.deepEqual(
          parseStrict(single),
          JSON.parse(single),
          "without the second one it reads",
        );
      },
    ));
  },
);

// These end at once or, with a reading that goes back over its input, not within the life of the test.
const LARGE = {
  "a string of escapes": `"${"\\\\".repeat(MIB / 2)}"`,
  "a string of escaped quotes": `"${'\\"'.repeat(MIB / 2)}"`,
  "a string of \\u": `"${"\\u0041".repeat(MIB / 6)}"`,
  "a plain string": `"${"a".repeat(MIB)}"`,
  "a list of strings": `[${'"",'.repeat(MIB / 3)}""]`,
  "many keys": `{${Array.from({ length: 60_000 }, (_, n) => `"${n}":${n}`).join(",")}}`,
  "many objects": `[${'{"a":1},'.repeat(MIB / 8)}0]`,
  "white space": `${" ".repeat(MIB)}1`,
  "brackets": `${"[".repeat(MIB / 8)}${"]".repeat(MIB / 8)}`,
} as const;
const LARGE_BAD = {
  "an open string of escapes": `"${"\\\\".repeat(MIB / 2)}`,
  "an open string that ends in a backslash": `"${"\\\\".repeat(MIB / 2)}\\`,
  "open brackets": "[".repeat(MIB / 4),
  "open objects": '{"a":'.repeat(MIB / 5),
  "quotes": '"'.repeat(MIB),
  "a double key at the end": `{"a":"${"\\n".repeat(MIB / 2)}","a":1}`,
} as const;

for (const [what, json] of Object.entries(LARGE)) {
  Deno.test(`much of ${what} is read`, { permissions: "none" }, () => {
    assert.notEqual(parseStrict(json), undefined);
    assert.equal(parseStrict(`${json}]`), undefined);
  });
}
for (const [what, json] of Object.entries(LARGE_BAD)) {
  Deno.test(`much of ${what} is refused`, { permissions: "none" }, () => {
    assert.equal(parseStrict(json), undefined);
  });
}

const Pair = z.strictObject({ n: u64, s: text.nullable(), list: z.array(u64) });
const EXACT = '{"n":3,"s":"a\\"\\u001f\u007f\u2028é","list":[1,2]}';

Deno.test("parseExact reads the one form that formatExact writes", { permissions: "none" }, () => {
  const value = { n: 3, s: 'a"\u001f\u007f\u2028é', list: [1, 2] };
  assert.equal(formatExact(Pair, value), EXACT);
  assert.deepEqual(parseExact(Pair, EXACT), value);
  const other = { list: value.list, s: value.s, n: value.n };
  assert.equal(
    formatExact(Pair, other),
    EXACT,
    "the order of the schema's keys, not of the value's",
  );
  assert.throws(() => formatExact(Pair, { ...value, n: -1 }));
  assert.throws(() => formatExact(Pair, { ...value, s: "\ud800" }));
});

const OTHER_FORMS = {
  "white space": EXACT.replace(",", ", "),
  "white space after": `${EXACT} `,
  "a newline after": `${EXACT}\n`,
  "another order": '{"s":null,"n":3,"list":[]}',
  "a key too many": EXACT.replace("{", '{"x":1,'),
  "__proto__ too many": EXACT.replace("{", '{"__proto__":null,'),
  "a key missing": '{"n":3,"list":[]}',
  "a double key": EXACT.replace("{", '{"n":3,'),
  "a double key, the last one good": EXACT.replace("{", '{"n":"x",'),
  "3.0": EXACT.replace("3", "3.0"),
  "3e0": EXACT.replace("3", "3e0"),
  "30e-1": EXACT.replace("3", "30e-1"),
  "-0": EXACT.replace("3", "-0"),
  "2^53": EXACT.replace("3", "9007199254740992"),
  "2^53 + 1": EXACT.replace("3", "9007199254740993"),
  "1e400": EXACT.replace("3", "1e400"),
  "a negative number": EXACT.replace("3", "-3"),
  "a fraction": EXACT.replace("3", "3.5"),
  "a number as text": EXACT.replace("3", '"3"'),
  "an escaped letter": EXACT.replace("a", "\\u0061"),
  "an escaped key": EXACT.replace('"n"', '"\\u006e"'),
  "hex in capitals": EXACT.replace("\\u001f", "\\u001F"),
  "an escaped slash": '{"n":3,"s":"\\/","list":[]}',
  "an escaped U+2028": EXACT.replace("\u2028", "\\u2028"),
  "a lone surrogate, escaped": '{"n":3,"s":"\\ud800","list":[]}',
  "a list for null": '{"n":3,"s":[],"list":[]}',
  "a hole in the list": '{"n":3,"s":null,"list":[null]}',
  "text": '"a"',
  "null": "null",
  "nothing": "",
  "100,000 brackets": "[".repeat(100_000) + "]".repeat(100_000),
  "100,000 open brackets": "[".repeat(100_000),
} as const;

for (const [what, json] of Object.entries(OTHER_FORMS)) {
  Deno.test(`parseExact refuses ${what}`, { permissions: "none" }, () => {
    assert.notEqual(json, EXACT);
    assert.equal(parseExact(Pair, json), null);
  });
}

/** The brackets and commas of each text that stand outside of its strings. */
const MARKS: Readonly<Record<string, number>> = {
  "1": 0,
  ",": 1,
  "[]": 1,
  "[[],{}]": 4,
  '{"a":[1,2,3],"b":{}}': 6,
  '"[,{"': 0,
  '["[,{"]': 1,
  '["\\"[,{",1]': 2,
  '["\\\\",1]': 2,
  '["\\\\\\"[",1]': 2,
  '["a\\n,",",",[]]': 4,
  '["é,😀[",{}]': 3,
  '["\\u005b,",1]': 2,
};

Deno.test("brackets and commas are counted outside of strings", { permissions: "none" }, () => {
  for (const [json, marks] of Object.entries(MARKS)) {
    assert.equal(hasMoreMarks(json, marks), false, json);
    assert.equal(hasMoreMarks(json, marks - 1), true, json);
  }
  fc.assert(fc.property(fc.json(), (json) => {
    const outside = json.replace(/"(?:[^"\\]|\\.)*"/g, "");
    const marks = outside.replace(/[^[{,]/g, "").length;
    assert.equal(hasMoreMarks(json, marks), false);
    assert.equal(hasMoreMarks(json, marks - 1), true);
  }));
});

/** `http_fetch` of the image: curl through a proxy, and what a server can and cannot make of it. */
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { podman as runPodman, runTool, type ToolCall } from "../support/image.ts";
import { toolTest } from "../support/containers.ts";
import { type Answer, Web } from "../support/image_web.ts";

/** A response of `status` with `headers` and `body`. */
function response(status: string, headers: Readonly<Record<string, string>>, body = ""): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status}\r\n${lines.join("")}Connection: close\r\n\r\n${body}`;
}

function redirect(location: string): string {
  return response("302 Found", { Location: location, "Content-Length": "6" }, "moved\n");
}

function fetchFrom(web: Web, url: string, call: ToolCall = {}, trusted = true) {
  return runTool("http_fetch", [url], { ...call, podman: web.podman({ trusted }) });
}

const PAGE = "https://page.example";

toolTest("a page comes with its status line, the few headers and its body", async () => {
  await using web = new Web((_, head) =>
    response("200 OK", {
      "Content-TYPE": "text/plain",
      "X-Other": "secret",
      "Set-Cookie": "a=b",
      "Content-Length": String(head.length),
      "Last-Modified": "Tue, 01 Dec 2026 00:00:00 GMT",
    }, head)
  );
  const { code, text, stderr } = await fetchFrom(web, `${PAGE}/a/../b?q=[1]&r={2}`);
  assert.deepEqual([code, stderr], [0, ""]);
  const [block, ...body] = text.split("\n\n");
  const sent = body.join("\n\n");
  assert.equal(
    block,
    `SHTTP/1.1 200 OK\ncontent-type: text/plain\ncontent-length: ${sent.length}\n` +
      "last-modified: Tue, 01 Dec 2026 00:00:00 GMT",
  );
  // The request is the decided one, and tells nothing of the machine.
  assert.deepEqual(sent.split("\r\n"), [
    "GET /a/../b?q=[1]&r={2} HTTP/1.1",
    "Host: page.example",
    "User-Agent: boxmaker",
    "Accept: */*",
    "Accept-Encoding: deflate, gzip, br, zstd",
    "",
    "",
  ]);
  assert.deepEqual(web.wanted, ["page.example:443"]);
});

toolTest("an error's page is a result, and one without body too", async () => {
  await using web = new Web((path) => response(path.slice(1), { "Retry-After": "7" }, "no\n"));
  for (const status of ["404", "500", "429"]) {
    const { code, text } = await fetchFrom(web, `${PAGE}/${status}`);
    assert.deepEqual([code, text], [0, `SHTTP/1.1 ${status}\nretry-after: 7\n\nno\n`]);
  }
  const { code, text } = await fetchFrom(web, `${PAGE}/204`);
  assert.deepEqual([code, text], [0, "SHTTP/1.1 204\nretry-after: 7\n\n"]);
});

toolTest("redirects are followed through the proxy, five of them", async () => {
  await using web = new Web((path) => {
    const left = Number(path.slice(1));
    const host = left % 2 === 0 ? "page" : "other";
    return left === 0
      ? response("200 OK", { "Content-Type": "text/x" }, "there\n")
      : redirect(`https://${host}.example/${left - 1}`);
  });
  const five = await fetchFrom(web, `${PAGE}/5`);
  assert.deepEqual(
    [five.code, five.text],
    [0, "SHTTP/1.1 200 OK\ncontent-type: text/x\n\nthere\n"],
  );
  assert.deepEqual(web.asked, ["/5", "/4", "/3", "/2", "/1", "/0"]);
  assert(web.wanted.includes("other.example:443"));
  const six = await fetchFrom(web, `${PAGE}/6`);
  assert.deepEqual([six.code, six.text], [1, "S"]);
  assert.match(six.stderr, /^curl: \(47\) .*\nit was redirected more than 5 times\n$/);
});

toolTest(
  "a redirect leads neither to plain http nor to another protocol nor past the proxy",
  async () => {
    let target = "";
    await using web = new Web(() => redirect(target), ["page.example"]);
    for (target of ["http://page.example/", "file:///etc/passwd", "gopher://page.example/"]) {
      const { code, text, stderr } = await fetchFrom(web, `${PAGE}/`);
      assert.deepEqual([code, text], [1, "S"], target);
      assert.match(stderr, /^curl: \(1\) .*\nonly https is fetched\n$/);
    }
    // Nothing but the page itself was asked of the proxy.
    assert.deepEqual([...new Set(web.wanted)], ["page.example:443"]);
    for (target of ["https://other.example/", "https://127.0.0.1/"]) {
      const { code, text, stderr } = await fetchFrom(web, `${PAGE}/`);
      assert.deepEqual([code, text], [1, "S"], target);
      assert.match(stderr, /^curl: \(97\) .*\nthe egress proxy refused the connection\n$/);
    }
    assert.deepEqual([...new Set(web.wanted)], [
      ...["page.example:443", "other.example:443", "an address"],
    ]);
    // Where no redirect went before, curl tells more.
    const first = await fetchFrom(web, "https://other.example/");
    assert.match(first.stderr, /^curl: \(97\) .*other\.example/);
  },
);

toolTest("http:// and other protocols are refused from the start", async () => {
  await using web = new Web(() => response("200 OK", {}, "x"));
  for (const url of ["http://page.example/", "file:///etc/passwd", "-K/etc/passwd", "ftp://h/"]) {
    const { code, text, stderr } = await fetchFrom(web, url);
    assert.deepEqual([code, text], [1, "S"], url);
    assert.match(stderr, /^curl: \(\d+\) /);
  }
  assert.deepEqual(web.wanted, []);
});

toolTest("a certificate of an unknown authority or for another host is refused", async () => {
  await using web = new Web(() => response("200 OK", {}, "x"), ["page.example", "wrong.example"]);
  assert.equal((await fetchFrom(web, PAGE)).text, "SHTTP/1.1 200 OK\n\nx");
  const unknown = await fetchFrom(web, PAGE, {}, false);
  assert.deepEqual([unknown.code, unknown.text], [1, "S"]);
  assert.match(
    unknown.stderr,
    /^curl: \(60\) SSL certificate problem[^]*\nthe host's certificate is not valid\n$/,
  );
  const wrong = await fetchFrom(web, "https://wrong.example/");
  assert.deepEqual([wrong.code, wrong.text], [1, "S"]);
  assert.match(wrong.stderr, /^curl: \(60\) SSL: no alternative certificate subject name matches/);
  assert.deepEqual(web.asked, ["/"]);
});

toolTest("neither a body nor headers can imitate the block of headers", async () => {
  const fake = "HTTP/1.1 200 OK\r\nContent-Type: text/fake\r\n\r\n";
  const chunked = { "Transfer-Encoding": "chunked", "Trailer": "Retry-After" };
  const answers: Record<string, string> = {
    "/body": response("404 Not Found", { "Content-Type": "text/html" }, `\r\n\r\n${fake}`),
    "/early": `HTTP/1.1 103 Early Hints\r\nContent-Type: text/early\r\n\r\n` +
      response("200 OK", {}, "late"),
    "/moved": redirect(`${PAGE}/body`),
    "/control": response("200 \x1b[31mred", { "Content-Type": "a\x1b]0;t\x07\x80b" }, "x"),
    "/trailer": response("200 OK", chunked, "1\r\nx\r\n0\r\nRetry-After: 9\r\n\r\n"),
    "/long": response("200 OK", { "Content-Type": "t".repeat(5000) }, "x"),
    "/twice": response("200 OK", { "Location": "a", "location": "b" }, "x"),
  };
  await using web = new Web((path) => answers[path] ?? "");
  const body = `SHTTP/1.1 404 Not Found\ncontent-type: text/html\n\n\r\n\r\n${fake}`;
  const expected: Record<string, string> = {
    "/body": body,
    "/early": "SHTTP/1.1 200 OK\n\nlate",
    "/moved": body,
    // The server's byte 0x80 was sent as the two of UTF-8.
    "/control": "SHTTP/1.1 200 ?[31mred\ncontent-type: a?]0;t???b\n\nx",
    "/trailer": "SHTTP/1.1 200 OK\n\nx",
    "/long": `SHTTP/1.1 200 OK\ncontent-type: ${"t".repeat(1024)}\n\nx`,
    "/twice": "SHTTP/1.1 200 OK\nlocation: b\n\nx",
  };
  for (const [path, text] of Object.entries(expected)) {
    const end = await fetchFrom(web, PAGE + path);
    assert.deepEqual([end.code, end.text, end.stderr], [0, text, ""], path);
  }
});

toolTest("a long body ends one byte after the limit, a packed one after unpacking", async () => {
  const plain = "y\n".repeat(500_000);
  const bodies: Record<string, Uint8Array<ArrayBuffer>> = {
    "/exact": new TextEncoder().encode("x".repeat(1000)),
    "/long": new TextEncoder().encode(plain),
    "/packed": new Uint8Array(gzipSync(plain)),
  };
  const answer: Answer = (path) => {
    const packed = path === "/packed" ? { "Content-Encoding": "gzip" } : {};
    const head = new TextEncoder().encode(response("200 OK", packed));
    return new Uint8Array([...head, ...bodies[path] ?? []]);
  };
  await using web = new Web(answer);
  for (const [path, length] of [["/exact", 1000], ["/long", 1001], ["/packed", 1001]] as const) {
    const { code, text, stderr } = await fetchFrom(web, PAGE + path);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.equal(text.length - text.indexOf("\n\n") - 2, length, path);
  }
});

toolTest("a page that breaks off or does not come in time fails, in curl's words", async () => {
  await using web = new Web(() => response("200 OK", { "Content-Length": "10" }, "short"));
  const cut = await fetchFrom(web, PAGE);
  assert.deepEqual([cut.code, cut.text], [1, "S"]);
  assert.match(cut.stderr, /^curl: \((18|56)\) /);
  // A whole proxy that never answers: the socket takes the connection, and nobody reads.
  using silent = new SilentSocket();
  const late = await runTool("http_fetch", [PAGE], { seconds: 1, podman: silent.podman });
  assert.deepEqual([late.code, late.text], [1, "S"]);
  assert.match(late.stderr, /^curl: \(28\) .*\nit took longer than 1 seconds\n$/);
});

toolTest("without the proxy it waits, then says that it is not there", async () => {
  const { code, text, stderr } = await runTool("http_fetch", [PAGE]);
  assert.deepEqual([code, text], [72, "S"]);
  assert.equal(stderr, "the egress proxy did not start in 10 seconds\n");
});

toolTest("it uses the proxy that starts after it", async () => {
  using late = new SilentSocket({ open: false });
  const name = `boxmaker-test-${crypto.randomUUID()}`;
  const podman = [...late.podman, `--name=${name}`];
  const ended = runTool("http_fetch", [PAGE], { seconds: 1, podman });
  let running = "";
  while (running.trim() !== "true") {
    running = await runPodman("inspect", "--format={{.State.Running}}", name).catch(() => "");
  }
  late.open();
  const { code, text, stderr } = await ended;
  assert.deepEqual([code, text], [1, "S"]);
  assert.match(stderr, /^curl: \(28\) .*\nit took longer than 1 seconds\n$/);
});

/** A unix socket in the proxy's place where nobody answers. */
class SilentSocket implements Disposable {
  readonly #folder = Deno.makeTempDirSync({ prefix: "boxmaker-silent-" });
  #listener: Deno.UnixListener | null = null;

  constructor({ open = true } = {}) {
    Deno.chmodSync(this.#folder, 0o755);
    if (open) this.open();
  }

  open(): void {
    const path = `${this.#folder}/proxy.sock`;
    this.#listener = Deno.listen({ transport: "unix", path });
    Deno.chmodSync(path, 0o666);
  }

  get podman(): string[] {
    return [`--mount=type=bind,source=${this.#folder},destination=/run/boxmaker,ro=true`];
  }

  [Symbol.dispose](): void {
    this.#listener?.close();
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

// A link that is passed on has the view, and never the token.
import { expect, test } from "vitest";
import { withoutToken } from "../src/components/copylink";

test("a link has the view and no token", () => {
  expect(withoutToken("http://h:1/?token=secret#/compare?a=1&b=2")).toBe("http://h:1/#/compare?a=1&b=2");
});

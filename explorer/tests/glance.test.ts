// Which inputs of a run say most depends on what is known of them.
import { expect, test } from "vitest";
import type { ClassItem } from "../src/answers";
import { worstInputs } from "../src/components/glance";

const LABELLED = [{ inputs: 3 } as ClassItem];
const UNLABELLED = [{ inputs: 0 } as ClassItem];

test("without labels nothing is called wrong", () => {
  expect(worstInputs({ rows: LABELLED, scored: true, judged: false, foresees: false })).toMatchObject({ order: "loss", shown: "wrong" });
  expect(worstInputs({ rows: LABELLED, scored: false, judged: false, foresees: false })).toMatchObject({ order: "index", shown: "wrong" });
  expect(worstInputs({ rows: UNLABELLED, scored: true, judged: false, foresees: false })).toMatchObject({ order: "least sure", shown: "all" });
  expect(worstInputs({ rows: [], scored: false, judged: false, foresees: false })).toMatchObject({ order: "index", shown: "all" });
  expect(worstInputs({ rows: [], scored: false, judged: true, foresees: false })).toMatchObject({ order: "loss", shown: "all" });
});

// Files of charts: every row once, texts of strangers are no formulas, and no colour needs a style sheet.
import { expect, test } from "vitest";
import { csvOf, fileName, headLines, lightColours, rowsOf } from "../src/chartfile";

test("rows of all layers and panels are found, each set once", () => {
  const points = [{ x: 1, of: "a" }];
  const spec = {
    data: { values: points },
    vconcat: [{ layer: [{ data: { values: [...points] } }, { data: { values: [{ y: 2 }] } }] }],
    encoding: { x: { axis: { values: [1, 2] }, scale: { values: [{ not: "data" }] } } },
  };
  expect(rowsOf(spec)).toEqual([{ x: 1, of: "a" }, { y: 2 }]);
});

test("a table has every column, and what a spreadsheet would compute is quoted", () => {
  const rows = [
    { name: '=HYPERLINK("x")', value: -0.5 },
    { name: 'a "b", c', more: null },
  ];
  expect(csvOf(rows)).toBe(`name,value,more\r\n"'=HYPERLINK(""x"")",-0.5,\r\n"a ""b"", c",,\r\n`);
});

test("roles of colours become their light values", () => {
  expect(lightColours('<path fill="var(--ink, #1b1f24)" stroke="var(--class-0, #0072b2)"/>')).toBe('<path fill="#1b1f24" stroke="#0072b2"/>');
});

test("a title becomes the name of a file", () => {
  expect(fileName("Top-1 of ../../etc: a & b", "svg")).toBe("top-1-of-etc-a-b.svg");
  expect(fileName("…", "csv")).toBe("chart.csv");
});

test("what stands above a saved chart is no wider than its picture", () => {
  const lines = headLines(["Labels and answers", "18 inputs, accuracy 100.0 %. Blue: correct. Orange: another class was predicted."], 300);
  expect(lines.map((line) => line.text)).toEqual(["Labels and answers", "18 inputs, accuracy 100.0 %. Blue:", "correct. Orange: another class was", "predicted."]);
  expect(lines.map((line) => line.y)).toEqual([28, 44, 60, 76]);
  expect(headLines(["", ""], 300)).toEqual([]);
});

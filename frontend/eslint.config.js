// Type-aware rules: casts must be ones that the types allow, and promises must be awaited or marked as left alone.
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules/"] },
  {
    files: ["src/**/*.ts", "test/**/*.ts"],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@typescript-eslint/no-unsafe-type-assertion": "error",
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: "test" }] },
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "TSAsExpression > TSNeverKeyword", message: "`as never` switches the types off." },
      ],
    },
  },
  {
    // tests build documents of the few parts that they need
    files: ["test/**/*.ts"],
    rules: { "@typescript-eslint/no-unsafe-type-assertion": "off" },
  },
);

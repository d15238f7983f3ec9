/** What kind of operator a type is, for its colour: the same for what frameworks spell differently. */

export type Category = "weights" | "activation" | "norm" | "pool" | "merge" | "shape" | "other";

/** The first that matches is taken; types are compared without underscores, in lower case. */
const CATEGORIES: [Category, RegExp][] = [
  ["norm", /norm|^lrn$|^bn$|^scale$/],
  ["pool", /pool|^reduce|^mean$|^globalaverage/],
  [
    "weights",
    /conv|gemm|matmul|dense|linear|innerproduct|fullyconnected|embedding|gather|lstm|gru|rnn|attention/,
  ],
  [
    "activation",
    /relu|elu$|silu|swish|sigmoid|tanh|softmax|softplus|softsign|mish|activation|^erf$|^clip$|leaky|prelu/,
  ],
  ["merge", /concat|^add|^sum$|^mul|^sub|^div|eltwise|elemwise|broadcast|^pow|^max$|^min$|^where$|cat$/],
  [
    "shape",
    /reshape|transpose|permute|flatten|squeeze|slice|split|^pad|expand|shape|view|resize|upsampl|tile|cast|crop/,
  ],
];

export function categoryOf(type: string): Category {
  const plain = type.replace(/_/g, "").toLowerCase();
  return CATEGORIES.find(([, pattern]) => pattern.test(plain))?.[0] ?? "other";
}

// Scores of the search: pages that explain a subject come before generated pages, reports and changes.
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^docs\/api\//.test(page)) return score - 12;
    if (/^results\/|^docs\/(changes|decisions|provenance|options|flags)$/.test(page)) return score - 9;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Appendix F a parser is given no parser when it runs
parser P();
parser Q(P p); //! type-error

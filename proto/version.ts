/** The version that the three programs say they are. Pure. */
export const VERSION = "m3a";

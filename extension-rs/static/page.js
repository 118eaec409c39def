import "./load.js";
import { page } from "./consentry.js";

page();

import "./load.js";
import { worker } from "./consentry.js";

worker();
